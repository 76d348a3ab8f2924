"""Make the rehearsal's model, tokenizer and data: ``python -m verl_rehearsal.assets FOLDER``.

All of it is the same, byte for byte, whenever it is made by the same versions of torch, transformers and pyarrow.
"""

import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SEED = 0
TRAIN_ROWS = 64
VALIDATION_ROWS = 8
_END_OF_TEXT, _START, _END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LEADS = (
    "So", "Thus", "Hence", "Then", "Now", "Well", "Yes", "No", "Good", "Fine", "Right", "Sure",
    "Here", "There", "Again", "Finally", "First", "Last", "Next", "Indeed", "Clearly", "Maybe", "Surely", "Overall",
)  # fmt: skip


def main(folder: Path) -> None:
    """Make the folder with ``model/``, ``train.parquet`` and ``test.parquet``: it appears as a whole or not at all.

    Where another process was faster, its folder stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True) as name:
        made = Path(name, "made")
        write(made)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / "test.parquet").is_file():
                raise


def write(folder: Path) -> None:
    """Write model, tokenizer and data into the folder."""
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder / "model")
    _model(tokenizer).save_pretrained(folder / "model")
    rows = _questions(TRAIN_ROWS + VALIDATION_ROWS)
    _write_data(folder / "train.parquet", rows[:TRAIN_ROWS], split="train")
    _write_data(folder / "test.parquet", rows[TRAIN_ROWS:], split="test")


def _tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of bytes, with whole answers as tokens.

    verl's rule for GSM8K wants ``#### NUMBER``. One token in seven is such an answer, so a model with random weights
    gives one in nearly every response, and the right one in about half of them: then the group's advantages are
    not all zero, and there is something to train on.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_END, pad_token=_END_OF_TEXT)
    fast.add_special_tokens({"additional_special_tokens": [_START]})
    fast.add_tokens([f" {lead} #### {digit} " for lead in _LEADS for digit in (0, 1)])
    fast.chat_template = _CHAT_TEMPLATE
    return fast


def _model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Return a Qwen2 of two layers, as FSDP2 shards layer by layer, with random weights."""
    torch.manual_seed(SEED)
    configuration = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(configuration)


def _questions(count: int) -> list[tuple[str, str]]:
    numbers = random.Random(SEED)  # noqa: S311 - data, no secret
    pairs = [(numbers.randint(1, 9), numbers.randint(1, 9)) for _ in range(count)]
    return [
        (f"Tom has {a} apples and buys {b} more. Is their number odd? Answer 1 or 0 after ####.", str((a + b) % 2))
        for a, b in pairs
    ]


def _write_data(path: Path, questions: list[tuple[str, str]], *, split: str) -> None:
    """Write rows as verl's ``examples/data_preprocess/gsm8k.py`` does; ``data_source`` selects verl's reward rule."""
    rows = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": question}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"split": split, "index": index},
        }
        for index, (question, answer) in enumerate(questions)
    ]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
