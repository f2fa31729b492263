#!/usr/bin/env python3
"""Writes made_rankers.jsonl, tiny models that rank: the sequence classifiers of transformers with one label, whose logit is
computed in float64 from token ids, and folders of sentence-transformers' CrossEncoder with tokens and scores of pairs of texts. Tensors
are those of made_models.py. pip install torch transformers sentence-transformers; made_rankers.py OUT"""
import json, pathlib, sys, tempfile
import torch, transformers
from safetensors.numpy import load_file, save_file
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedTokenizerFast
from made_values import values

SIZES = dict(vocab_size=64, hidden_size=48, intermediate_size=40, num_hidden_layers=2, max_position_embeddings=66, num_labels=1)
BERT = SIZES | dict(num_attention_heads=3, layer_norm_eps=0.02, type_vocab_size=2, pad_token_id=0)
ROBERTA = BERT | dict(type_vocab_size=1, pad_token_id=1)
DECODER = SIZES | dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=0.02, pad_token_id=None,
                       bos_token_id=1, eos_token_id=2)
MODERN = SIZES | dict(num_attention_heads=3, norm_eps=0.02, pad_token_id=0, num_hidden_layers=3, local_attention=8)
DEBERTA = BERT | dict(type_vocab_size=0, relative_attention=True, share_att_key=True, position_biased_input=False,
                      pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", position_buckets=8)
CLASSIFIERS = {
    "bert": BERT, "ernie": BERT, "megatron-bert": BERT, "electra": BERT | dict(embedding_size=48),
    "roformer": BERT | dict(embedding_size=48), "albert": BERT | dict(embedding_size=32, hidden_act="gelu_new"),
    "roberta": ROBERTA, "xlm-roberta": ROBERTA, "camembert": ROBERTA, "xlm-roberta-xl": ROBERTA, "mpnet": ROBERTA,
    "roberta-prelayernorm": ROBERTA, "data2vec-text": ROBERTA,
    "gte": BERT, "deberta-v2": DEBERTA,
    "distilbert": dict(vocab_size=64, dim=48, hidden_dim=40, n_layers=2, n_heads=3, max_position_embeddings=66, num_labels=1),
    "modernbert": MODERN | dict(classifier_pooling="mean"), "modernbert-decoder": MODERN,
    "llama": DECODER, "mistral": DECODER, "qwen2": DECODER, "qwen3": DECODER, "gemma2": DECODER, "phi3": DECODER,
}
IDS = [(7 * i * i + 3 * i + 5) % 59 + 5 for i in range(14)]
TYPES = [0] * 6 + [1] * 8
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] how many people live in berlin ? has a population of million the museum is well known for its art yes no query document judge".split() \
    + [before + letter for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for before in ("", "##")]
PAIRS = [("how many people live in berlin ?", "berlin has a population of million people ."),
         ("how many people live in berlin ?", "the museum is well known for its art"),
         ("museum", "berlin is well known for its museum , the art museum of berlin , and a population of many million people"),
         ("how many people live in berlin ? how many people live in berlin", "art " * 10)]


def filled(model):
    """Its tensors, made of their names as they are saved."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path = pathlib.Path(folder) / "model.safetensors"
        tensors = load_file(path)
        shapes = {name: list(tensor.shape) for name, tensor in sorted(tensors.items()) if "encoder.embed_positions" not in name}
        save_file(tensors | {name: values(name, shape) for name, shape in shapes.items()}, path, {"format": "pt"})
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        return config, shapes, type(model).from_pretrained(folder, attn_implementation="eager").eval()


def classifier(name, sizes):
    config = AutoConfig.for_model(name, **sizes)
    config, tensors, model = filled(AutoModelForSequenceClassification.from_config(config))
    has_types = sizes.get("type_vocab_size") == 2
    types = dict(token_type_ids=torch.tensor([TYPES])) if has_types else {}
    with torch.no_grad():
        logit = model.double()(input_ids=torch.tensor([IDS]), **types).logits.item()
    return {"name": name, "config": config, "tensors": tensors, "ids": IDS, "types": TYPES if has_types else [], "logit": logit}


def tokenizer(pairs):
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(dict.fromkeys(WORDS))}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    if pairs:
        made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_max_length=24,
                                   model_input_names=["input_ids", "attention_mask"] + ["token_type_ids"] * pairs)


def tokens(features, with_types):
    return [features["input_ids"][0].tolist(), features["token_type_ids"][0].tolist() if with_types else []]


def cross_encoder(name, model, text, **more):
    """As CrossEncoder saves it; its files but the tensors, whose shapes are enough, and pairs with their tokens and scores."""
    config, tensors, model = filled(model)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        model.save_pretrained(root)
        text.save_pretrained(root)
        encoder = CrossEncoder(folder, **more)
        encoder.save_pretrained(folder)
        encoder = CrossEncoder(folder)
        encoder.model.double()
        files = {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*"))
                 if path.is_file() and path.suffix not in (".safetensors", ".md") and path != root / "config.json"}
        prompts = {"": None} | encoder.prompts
        pairs = [[query, document, prompt, float(encoder.predict([(query, document)], prompt=text)[0]),
                  *tokens(encoder.preprocess([(query, document)], prompt=text), config.get("type_vocab_size") == 2)]
                 for prompt, text in prompts.items() for query, document in PAIRS]
        return {"name": name, "config": json.loads((root / "config.json").read_text()), "tensors": tensors, "files": files,
                "pairs": pairs}


def bert(name, **more):
    return cross_encoder(name, AutoModelForSequenceClassification.from_config(AutoConfig.for_model("bert", **BERT | dict(vocab_size=128))),
                         tokenizer(True), **more)


def deberta():
    """Unigram pieces, and types of tokens that the model has no embeddings of."""
    words = list(dict.fromkeys(WORDS))[5:]
    pieces = ["▁" + word for word in words if not word.startswith("##") and len(word) > 1] + ["▁"] + [word for word in words if len(word) == 1]
    vocab = [(token, 0.0) for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")] + [(piece, -3 - i / 16) for i, piece in enumerate(pieces)]
    text = transformers.DebertaV2Tokenizer(vocab=vocab + [("[MASK]", 0.0)], unk_id=3, model_max_length=24)
    config = AutoConfig.for_model("deberta-v2", **DEBERTA | dict(vocab_size=128))
    return cross_encoder("deberta-pairs", AutoModelForSequenceClassification.from_config(config), text)


FORM = """{% for m in messages %}{% if m.role == 'system' %}judge {{ m.content }} {% elif m.role == 'query' %}query {{ m.content }} {% else %}document {{ m.content }} {% endif %}{% endfor %}yes no ?"""


def by_logits():
    """A decoder that answers yes or no behind a template."""
    text = tokenizer(False)
    text.chat_template, text.padding_side = FORM, "left"
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**DECODER | dict(vocab_size=128)))
    return cross_encoder("answers", model, text, prompts={"art": "art"})


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for made in [by_logits(), bert("cross-encoder"), bert("cross-encoder-identity", activation_fn=torch.nn.Identity()), deberta()] + [
                classifier(*each) for each in CLASSIFIERS.items()]:
            out.write(json.dumps(made, separators=(",", ":")) + "\n")
