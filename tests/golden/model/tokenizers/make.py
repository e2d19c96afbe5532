#!/usr/bin/env python3
"""Makes the tokenizer.json files of this folder and the ids that Hugging Face's tokenizers library gives for
a fixed set of texts: pip install tokenizers==0.23.3, then run this in its folder."""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's the dog's day, they'll say; WE'RE HERE, I'VE SEEN IT.",
    "storage restores the cache, the cache restores the session, the session stores the state",
    "In 2024 there were 1234567 blocks of 4096 bytes; 3.14159 and 2.71828 are numbers.",
    "    indented code\n\tif (x == 1) {\n\t\treturn x * 2;\n\t}\n\n\nend\r\n",
    "naïve café résumé über straße Ελληνικά русский язык 中文字符 日本語 한국어 😊🎉",
] * 3
PIECES = ["the", " the", "cache", " cache", "'s", "'S", "'ll", "'LL", "'ſ", "don't", "I'M", "1", "22", "333", "4444",
          "1234567", "²½", "٣٤", "Ⅷ", "①", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\u0085", "\u00a0", "\u1680",
          "\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\u180e", "\u200b", "\ufeff", "\x1c", "\x1f", "é", "e\u0301",
          "\u0301", "नमस्ते", "中文", "日本", "한국어", "😊", "👩‍👩‍👧", "🇩🇪", "!", "...", " ...", "?!\n", "_", "-", "$", "€", "x",
          "X", "ß", "ǅ", "ª", "ʰ", "\u0000", "\ue000", "\uf8ff", "storages", " storages"]


def train(pre_tokenizer, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return json.loads(tokenizer.to_str())


def llama3():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated", False),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    data = train(pre, [])
    vocab = data["model"]["vocab"]
    # Words that no merge makes: only ignore_merges finds them. "Ġcaches" is none of the texts' words.
    for word in ["Ġstorages", "storages", "ĠXX", "Ġ...", "ĠĠĠ"]:
        if word not in vocab:
            vocab[word] = len(vocab)
    data["model"]["ignore_merges"] = True
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|end|>", "<|end|>x"])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def without_ignore_merges(tokenizer):
    data = json.loads(tokenizer.to_str())
    data["model"]["ignore_merges"] = False
    return Tokenizer.from_str(json.dumps(data))


def gpt2():
    tokenizer = Tokenizer.from_str(json.dumps(train(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def digits():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer = Tokenizer.from_str(json.dumps(train(pre, ["<|endoftext|>"])))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def texts():
    rng = random.Random(20240101)
    result = CORPUS[:5] + ["", " ", "storages", " storages XX ...   storages"]
    result += ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 14))) for _ in range(220)]
    return result


SPECIAL_TEXTS = ["<|begin_of_text|>hi", "a<|end|>b", "<|end|>x <|end|> y", "  <|end_of_text|>  \n", "<tool>1<tool>",
                 "the <|end|><|end|> 12 <|endoftext|>  34", "<|begin_of_text|><|begin_of_text|>"]


def main():
    llama = llama3()
    for name, tokenizer in [("llama3", llama), ("llama3_merges", without_ignore_merges(llama)), ("gpt2", gpt2()),
                            ("digits", digits())]:
        with open(name + ".tokenizer.json", "w", encoding="utf-8") as file:
            file.write(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=True, separators=(",", ":")))
        rows = []
        for text in texts() + SPECIAL_TEXTS:
            rows.append({"bytes_hex": text.encode().hex(), "special": text in SPECIAL_TEXTS,
                         "ids": tokenizer.encode(text, add_special_tokens=False).ids,
                         "ids_with_added": tokenizer.encode(text).ids})
        with open(name + ".golden.json", "w", encoding="utf-8") as file:
            file.write('{"made_with": "tokenizers 0.23.3", "texts": [\n')
            file.write(",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]}\n")


main()
