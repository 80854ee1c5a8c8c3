"""Greedy search, beam search and sampling: how the next tokens are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minicc.frontends.onnx.bodies import Importing
from minicc.frontends.onnx.microsoft.common import DOMAIN, flag
from minicc.frontends.onnx.microsoft.generation import Chosen, Search
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.indexing import emit_all
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import search
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import BOOL, F32, F64, I32, I64

_INPUTS = "ids most least repetition words first_words mask"
_MODULUS, _FACTOR = (1 << 31) - 1, 16807  # of minstd_rand0
_MOST_DRAWS = 31  # bits of how many there are
_F64 = 11  # TensorProto.DataType
_BEAM_INPUTS = (
    "ids most least beams returned length repetition words first_words mask decoder_ids processor"
)


@search(f"{DOMAIN}.GreedySearch")
def greedy_search(importer: Importing, node: Node) -> tuple[Value, ...]:
    """The most likely token each time, for each sequence up to its end."""
    return _searched(_Greedy, importer, node, _INPUTS)


@search(f"{DOMAIN}.BeamSearch")
def beam_search(importer: Importing, node: Node) -> tuple[Value, ...]:
    """The likeliest sequences that are found when the best few are kept each time."""
    return _searched(_Beam, importer, node, _BEAM_INPUTS)


@search(f"{DOMAIN}.WhisperBeamSearch")
def whisper_beam_search(importer: Importing, node: Node) -> tuple[Value, ...]:
    """A beam search of Whisper's encoder and decoder, whose scores a temperature may flatten."""
    names = f"{_BEAM_INPUTS} kept_heads more_ids temperature"
    inner = replace(node, attributes={**node.attributes, "model_type": 2})
    return _searched(_Beam, importer, inner, names)


@search(f"{DOMAIN}.Sampling")
def sampling(importer: Importing, node: Node) -> tuple[Value, ...]:
    """Tokens drawn by their probabilities, of the likeliest that have a share of it together."""
    return _searched(_Sampling, importer, node, f"{_INPUTS} present seed")


def _searched(kind: type[Search], importer: Importing, node: Node, names: str) -> tuple[Value, ...]:
    try:
        return kind(importer, node, names).run()
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise importer.ctx.wrong(f"its graphs do not fit it ({error})") from error


class _Greedy(Search):
    """One sequence of each prompt; its state says which have ended."""

    def begin(self) -> tuple[Value, ...]:
        return (self.filled(0, BOOL, self.batch, 1),)

    def picked(self, scores: Value, length: Value) -> Value:
        """The tokens that scores choose."""
        return self.standard("ArgMax", scores, axis=1)

    def chosen(
        self, logits: Value, buffer: Value, length: Value, states: Sequence[Value], first: bool
    ) -> Chosen:
        scores = self.processed(self.last_logits(logits), buffer, length, first)
        tokens = self.ctx.cast(self.picked(scores, length), I32)
        ended = self("Or", states[0], self("Eq", tokens, self.end))
        tokens = self("Select", ended, self.pad, tokens)
        alive = self.any_of(self("Not", ended))
        return Chosen(tokens, None, alive, (self.put(buffer, tokens, length), ended), scores)

    def ended(
        self, states: Sequence[Value], first: Value, rows: Sequence[Value]
    ) -> tuple[Value, ...]:
        return (states[0],)


class _Sampling(_Greedy):
    """Draws of the generator that C++ calls minstd_rand0, as ONNX Runtime's on Linux are."""

    def __init__(self, importer: Importing, node: Node, names: str) -> None:
        super().__init__(importer, node, names)
        if self.inputs["seed"] is None:
            name = f"{node.name}/seed"
            range_ = {"shape": (1,), "low": 1.0, "high": float(_MODULUS), "dtype": _F64}
            importer.node(Node("RandomUniform", name, (), (name,), range_))
            self.stand()
            self.inputs["seed"] = importer.value(name, name)

    def picked(self, scores: Value, length: Value) -> Value:
        node, temperature = self.node, self.node.number("temperature", 1.0)
        if temperature > 0:
            scores = self("Div", scores, temperature)
        penalty = self.inputs["present"]
        if penalty is not None:
            there = self("Mul", self.ctx.cast(penalty, F32), node.number("presence_penalty", 0.0))
            scores = self("Sub", scores, there)
        scores = self.filtered(scores)
        # the classes whose probabilities together are no more than what was drawn
        wide = self.ctx.cast(scores, F64)
        top = self("Reduce", wide, axes=(1,), combine="max", keepdims=True)
        sums = self.summed(self("Exp", self("Sub", wide, top)))
        total = self("Reduce", sums, axes=(1,), combine="max", keepdims=True)
        step = self("Sub", length, self.size(self.begun))
        sought = self("Mul", self.drawn(step), total)
        passed = self.ctx.cast(self("Le", sums, sought), I64)
        return self("Reduce", passed, axes=(1,), combine="add", keepdims=True)

    def summed(self, x: Value) -> Value:
        """The sum of each element and those before it in its row."""
        return self.standard("CumSum", x, self.ctx.constant(np.array(1)))

    def filtered(self, scores: Value) -> Value:
        """Scores with a low one for the tokens that are not among the likeliest."""
        node, ctx = self.node, self.ctx
        words = ctx.static(scores.type.shape[1], "the words")
        share, custom = node.number("top_p", 0.0), flag(node, "custom")
        ordered, index = emit_all(ctx, graph.TopK, scores, axis=1, k=words, largest=custom)
        sums = self.summed(self.standard("Softmax", ordered, axis=1))
        place = self.line(words)
        if custom:
            # a token goes where those before it have the share
            before = self("Max", self("Sub", self.line(words, rank=1), 1), 0)
            whole = self("Lt", ctx.scalar(share, F32), self("Gather", sums, before, axis=1))
            low = self("And", whole, self("Ne", place, 0))
        else:
            kept = max(words - node.integer("min_tokens_to_keep", 0), 1)
            low = self("And", self("Lt", place, kept), self("Le", sums, 1 - share))
        none = self("Select", low, node.number("filter_value", -1e20), ordered)
        return self("ScatterElements", scores, index, none, axis=1)

    def drawn(self, step: Value) -> Value:
        """A number from 0 up to 1 for each prompt: two draws that follow those of other steps."""
        ctx = self.ctx
        row = ctx.emit(graph.Iota, shape=(self.batch, 1), axis=0, dtype=I64)
        first = self("Mul", self("Add", self("Mul", step, self.size(self.batch)), row), 2)
        seed = ctx.cast(ctx.reshape(self.value("seed"), ()), I64)
        seed = self("Mod", seed, _MODULUS)
        seed = self("Select", self("Eq", seed, 0), 1, seed)

        def at(place: Value) -> Value:
            """The draw at a place: the seed times a power of the factor, by squares."""
            found, square = seed, _FACTOR
            for bit in range(_MOST_DRAWS):
                odd = self("Eq", self("Mod", self("FloorDiv", place, 1 << bit), 2), 1)
                more = self("Mod", self("Mul", found, square), _MODULUS)
                found = self("Select", odd, more, found)
                square = square * square % _MODULUS
            return ctx.cast(self("Sub", found, 1), F64)

        span = float(_MODULUS - 1)
        low, high = at(self("Add", first, 1)), at(self("Add", first, 2))
        return self("Div", self("Add", low, self("Mul", high, span)), span * span)


class _Beam(Search):
    """Several sequences of each prompt.

    Its states are the scores of the beams, the scores of the best that ended (minus infinity for
    none) and these, and which prompts are done.
    """

    def __init__(self, importer: Importing, node: Node, names: str) -> None:
        super().__init__(importer, node, names)
        for name in ("beams", "returned"):
            if self.inputs[name] is None:
                raise self.ctx.wrong(f"its input num_{name} is missing")
        processor = self.inputs["processor"]
        if processor is not None and self.ctx.known(processor, "logits_processor").any():
            raise self.ctx.unsupported("logits_processor is not 0", "leave it out")
        if self.inputs.get("more_ids") is not None:
            raise self.ctx.unsupported("extra_decoding_ids is given", "leave it out")
        self.beams = self.count("beams")
        self.power = self.number("length", 1)

    def begin(self) -> tuple[Value, ...]:
        batch, beams = self.batch, self.beams
        first = self("Eq", self.line(beams), 0)
        zero = self.filled(0, F32, batch, beams)
        scores = self("Select", first, zero, -1e9)
        none = self.filled(-np.inf, F32, batch, beams)
        sequences = self.filled(self.pad, I32, batch * beams, self.most)
        return scores, none, sequences, self.filled(0, BOOL, batch, 1)

    def chosen(
        self, logits: Value, buffer: Value, length: Value, states: Sequence[Value], first: bool
    ) -> Chosen:
        ctx, batch, beams = self.ctx, self.batch, self.beams
        before, best, sequences, done = states
        rows = batch * beams
        newest = self.last_logits(logits)
        newest = newest if newest.type.shape[0] == rows else self.repeated(newest)
        likely = self.standard("LogSoftmax", newest, axis=1)
        scores = self.processed(likely, buffer, length, first)
        if self.inputs.get("temperature") is not None:
            scores = self("Div", scores, self.number("temperature", 1))
        scores = self("Add", scores, ctx.reshape(before, (rows, 1)))
        words = scores.type.shape[1]
        flat = ctx.reshape(scores, (batch, beams * words))
        top, index = self.top(flat, 2 * beams)
        count = self.size(words)
        tokens, beam = ctx.cast(self("Mod", index, count), I32), self("FloorDiv", index, count)
        row = self("Add", beam, self.starts(beams))
        ends = self("Eq", tokens, self.end)
        # those that end, of the best few
        near = {1: (0, beams, 1)}
        counts = self("And", cut(ctx, ends, near), self("Not", done))
        held = self.rows(buffer, cut(ctx, row, near))
        best, sequences = self.kept((best, sequences), cut(ctx, top, near), held, counts, length)
        done = self("Or", done, self.finished(best, top, length))
        # the best that go on, in order
        place = self("Neg", self.line(2 * beams, F32))
        last = self("Neg", ctx.extent(2 * beams, F32))
        _, order = self.top(self("Select", ends, self("Add", place, last), place), beams)
        found = [self("GatherElements", x, order, axis=1) for x in (top, tokens, row)]
        # beams of a prompt that was done stand still
        after, token, row = (
            self("Select", states[3], still, x)
            for still, x in zip((0, self.pad, 0), found, strict=True)
        )
        flat, token = ctx.reshape(row, (rows,)), ctx.reshape(token, (rows, 1))
        buffer = self.put(self.rows(buffer, flat), token, length)
        alive = self.any_of(self("Not", done))
        return Chosen(token, flat, alive, (buffer, after, best, sequences, done), scores)

    def starts(self, count: Dim) -> Value:
        """The number of each prompt's first row where each has so many."""
        batch = self.ctx.emit(graph.Iota, shape=(self.batch, 1), axis=0, dtype=I64)
        return self("Mul", batch, self.size(count))

    def kept(
        self, ended: tuple[Value, Value], scores: Value, found: Value, where: Value, length: Value
    ) -> tuple[Value, Value]:
        """The best ended sequences with the new ones that are `where`: by their scores a token."""
        (best, sequences), batch, beams = ended, self.batch, self.beams
        size = self("Pow", self.ctx.cast(length, F32), self.power)
        each = self("Select", where, self("Div", scores, size), -np.inf)
        both = self.ctx.emit(graph.Concat, (best, each), axis=1)
        best, order = self.top(both, beams)
        old = self.ctx.reshape(sequences, (batch, beams, self.most))
        whole = self.ctx.emit(graph.Concat, (old, found), axis=1)
        whole = self.ctx.reshape(whole, (batch * 2 * beams, self.most))
        index = self.ctx.reshape(self("Add", order, self.starts(2 * beams)), (batch * beams,))
        return best, self.rows(whole, index)

    def finished(self, best: Value, top: Value, length: Value) -> Value:
        """Whether no sequence of a prompt can become one of the best."""
        last = self("Reduce", best, axes=(1,), combine="min", keepdims=True)
        full = self("Lt", self.ctx.scalar(-np.inf, F32), last)
        if flag(self.node, "early_stopping"):
            return full
        size = self("Pow", self.ctx.cast(length, F32), self.power)
        most = self("Div", self("Reduce", top, axes=(1,), combine="max", keepdims=True), size)
        return self("And", full, self("Le", most, last))

    def ended(
        self, states: Sequence[Value], first: Value, rows: Sequence[Value]
    ) -> tuple[Value, ...]:
        ctx, batch, beams = self.ctx, self.batch, self.beams
        buffer, scores, best, sequences, done = states
        open_ = self("And", self("Not", done), self.filled(1, BOOL, batch, beams))
        found = ctx.reshape(buffer, (batch, beams, self.most))
        length = self.size(self.most)
        best, sequences = self.kept((best, sequences), scores, found, open_, length)
        returned = self.count("returned")
        sequences = ctx.reshape(sequences, (batch, beams, self.most))
        near = self.line(returned, rank=1)
        outputs = [self("Gather", x, near, axis=1) for x in (sequences, best)]
        if rows:
            outputs.append(self.all_scores(first, rows[0]))
        return tuple(outputs)

    def all_scores(self, first: Value, rows: Value) -> Value:
        """The scores of all rounds, and 0 for those that were not needed."""
        ctx, (count, words) = self.ctx, first.type.shape
        whole = ctx.emit(graph.Concat, (ctx.reshape(first, (1, count, words)), rows), axis=0)
        made, most = self.size(whole.type.shape[0]), self.most - self.begun
        line = self.line(most, rank=1)
        near = self("Min", line, self("Sub", made, 1))
        there = ctx.reshape(self("Lt", line, made), (most, 1, 1))
        out = self("Select", there, self("Gather", whole, near, axis=0), 0.0)
        return ctx.reshape(out, (most, self.batch, self.beams, words))
