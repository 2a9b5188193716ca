"""A model of 120 KB that llama.cpp serves like any other, with random weights: it babbles.

Its tokens are the single bytes and the marks of its template. What it says is printable, ends by
itself now and then, and keeps to whatever grammar the server holds it to.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTEXT = 4096
"""How many tokens prompt and answer may have together."""

# Reasoning until "</think>", calls between marks: as on the templates of Qwen and Hermes.
TEMPLATE = Path(__file__).with_name("template.jinja")

_CONTROL = ("<|im_start|>", "<|im_end|>")
_MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
_WIDTH, _HIDDEN = 32, 64

# What the first places of a vector are for; the others are noise. They see to it that no answer
# ends or calls a tool before its thinking has ended, and that this happens once.
_ALWAYS, _ENDS_THINKING, _HAS_THOUGHT = 0, 1, 2

_LIKELY = {"<|im_end|>": (-1.5, 2.4), "<tool_call>": (-1.5, 2.4), "</think>": (0.1, -1.5)}
"""How much likelier than a letter, at first, and how much is added once the thinking has ended."""

_NEVER = (-4.0, 0.0)


def write_model(path: Path) -> None:
    """Write the model to *path*, the same each time."""
    gguf = import_module("gguf")  # only the session `interop` installs it
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(_WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_chat_template(TEMPLATE.read_text("utf-8"))
    words = [*_bytes(), "th"]
    tokens = [*words, *_CONTROL, *_MARKS]
    kind = gguf.TokenType
    kinds = [(kind.NORMAL, words), (kind.CONTROL, _CONTROL), (kind.USER_DEFINED, _MARKS)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([each for each, group in kinds for _ in group])
    writer.add_token_merges(["t h"])  # there must be one
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    for name, tensor in _weights(tokens):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _bytes() -> list[str]:
    """Give the characters that stand for the bytes in vocabularies of GPT-2's kind."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    codes = dict(zip(printable, printable, strict=True))
    codes |= {byte: 0x100 + index for index, byte in enumerate(others)}
    return [chr(codes[byte]) for byte in range(0x100)]


def _weights(tokens: Sequence[str]) -> Iterator[tuple[str, object]]:
    numpy = import_module("numpy")
    random = numpy.random.default_rng(seed=7)
    embedding = random.standard_normal((len(tokens), _WIDTH))
    output = random.standard_normal((len(tokens), _WIDTH)) * 0.3
    for index, word in enumerate(tokens):
        embedding[index, :3] = 8, 8 if word == "</think>" else 0, 0
        is_printable = 0x20 <= index < 0x7F
        always, thought = (0.0, 0.0) if is_printable else _LIKELY.get(word, _NEVER)
        output[index, :3] = always, 0, thought
    query, key, value, result = numpy.zeros((4, _WIDTH, _WIDTH))
    # In the last place, where positions hardly turn it, every token asks for the end of thinking.
    query[-1, _ALWAYS] = key[-1, _ENDS_THINKING] = 2.4
    value[0, _ENDS_THINKING] = 1
    result[_HAS_THOUGHT, 0] = 1.5
    tensors = {
        "token_embd": embedding,
        "output": output,
        "output_norm": numpy.ones(_WIDTH),
        "blk.0.attn_norm": numpy.ones(_WIDTH),
        "blk.0.ffn_norm": numpy.ones(_WIDTH),
        "blk.0.attn_q": query,
        "blk.0.attn_k": key,
        "blk.0.attn_v": value,
        "blk.0.attn_output": result,
        "blk.0.ffn_gate": random.standard_normal((_HIDDEN, _WIDTH)) * 0.1,
        "blk.0.ffn_up": random.standard_normal((_HIDDEN, _WIDTH)) * 0.1,
        "blk.0.ffn_down": random.standard_normal((_WIDTH, _HIDDEN)) * 0.1,
    }
    for name, tensor in tensors.items():
        yield f"{name}.weight", tensor.astype(numpy.float32)
