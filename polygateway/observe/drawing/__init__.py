"""What pictures of calls are made of. Pure: recorded calls in, markup and words out."""
