"""Triton kernels for what torch cannot do fast: sums of trigram rows, the LSTM-RNN over all tokens, the loss.

`../towers.py` is the version to read, with its gradient by autograd; tests compare them.

A batch here has a fixed shape, so that a CUDA graph can hold a whole update: `rows` texts of at most `words` tokens;
token t of text r is row t * rows + r of the arrays that hold all tokens. Texts are sorted, longest first: those of
one program end at about the same token. A missing text has length 0.
"""

import triton
import triton.language as tl


@triton.jit
def _bag(tokens, token_begin, at):
    """Return where the trigrams of a token start and end."""
    token = tl.load(tokens + at)
    return tl.load(token_begin + token), tl.load(token_begin + token + 1)


@triton.jit
def _few(token_trigrams, some, end, FEW: tl.constexpr):
    """Return FEW trigrams of a token from index `some` on, and which of them exist."""
    at = some + tl.arange(0, FEW)
    return tl.load(token_trigrams + at, mask=at < end, other=0), at < end


@triton.jit
def sum_bags(
    sums, matrix, bias, tokens, begin, length, token_begin, token_trigrams, rows,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Write W l(t) + b of each token: the sum of the rows of its trigrams, FEW at a time and COLUMNS wide."""
    r, t, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if t < tl.load(length + r):
        columns = part * COLUMNS + tl.arange(0, COLUMNS)
        inside = columns < WIDTH
        first, end = _bag(tokens, token_begin, tl.load(begin + r) + t)
        total = tl.load(bias + columns, mask=inside, other=0.0)
        for some in range(first, end, FEW):
            trigrams, there = _few(token_trigrams, some, end, FEW)
            where = trigrams.to(tl.int64)[:, None] * WIDTH + columns[None, :]
            total += tl.sum(tl.load(matrix + where, mask=there[:, None] & inside[None, :], other=0.0), 0)
        row = (t * rows + r).to(tl.int64)
        tl.store(sums + row * WIDTH + columns, total, mask=inside)


@triton.jit
def spread_bags(
    d_sums, d_matrix, tokens, begin, length, token_begin, token_trigrams, rows,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Add the gradient of `sum_bags`: each trigram of a token gets the gradient of the token."""
    r, t, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if t < tl.load(length + r):
        columns = part * COLUMNS + tl.arange(0, COLUMNS)
        inside = columns < WIDTH
        first, end = _bag(tokens, token_begin, tl.load(begin + r) + t)
        row = (t * rows + r).to(tl.int64)
        given = tl.load(d_sums + row * WIDTH + columns, mask=inside, other=0.0)
        for some in range(first, end, FEW):
            trigrams, there = _few(token_trigrams, some, end, FEW)
            where = trigrams.to(tl.int64)[:, None] * WIDTH + columns[None, :]
            both = there[:, None] & inside[None, :]
            tl.atomic_add(d_matrix + where, tl.broadcast_to(given[None, :], (FEW, COLUMNS)), mask=both, sem="relaxed")


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def run_forward(
    gates, recurrent, cell, output, vectors, length, rows, words, gate_stride, cell_stride,
    CELLS: tl.constexpr, GATES: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr,
    BACKWARDS: tl.constexpr,
):  # fmt: skip
    """Run equation 2 for BLOCK texts, PART cells at a time. `gates` holds W l(t) + b, then the activations.

    `recurrent` is W_rec transposed, (cells, gates * cells). Threads read at the next token what other threads have
    written of y(t), hence the barriers. The kernel is built without pipelining, which would read ahead of them.
    """
    WIDTH: tl.constexpr = GATES * CELLS
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = r < rows
    lengths = tl.load(length + r, mask=here, other=0)
    longest = tl.max(lengths, 0)
    part = tl.arange(0, PART)
    for j in range(0, CELLS, PART):
        empty = (here & (lengths == 0))[:, None]
        where = r.to(tl.int64)[:, None] * cell_stride + j + part[None, :]
        tl.store(vectors + where, tl.zeros((BLOCK, PART), tl.float32), mask=empty)
    for t in range(0, words):
        going = t < lengths
        place = tl.where(going, lengths - 1 - t if BACKWARDS else t, t)
        now = place.to(tl.int64) * rows + r
        before = now + rows if BACKWARDS else now - rows
        on = going[:, None]
        has_before = (going & (lengths * 0 + t > 0))[:, None]  # a tensor: t alone may be a plain number
        if t < longest:
            for j in range(0, CELLS, PART):
                at = gates + now[:, None] * gate_stride + j + part[None, :]
                y_g = tl.load(at, mask=on, other=0.0)
                i = tl.load(at + CELLS, mask=on, other=0.0)
                o = tl.load(at + (GATES - 1) * CELLS, mask=on, other=0.0)
                f = o
                if GATES == 4:
                    f = tl.load(at + 2 * CELLS, mask=on, other=0.0)
                if t > 0:
                    for k in range(0, CELLS, PART):
                        y = tl.load(output + before[:, None] * cell_stride + k + part[None, :], mask=on, other=0.0)
                        w = recurrent + (k + part)[:, None] * WIDTH + j + part[None, :]
                        y_g = tl.dot(y, tl.load(w), y_g, input_precision="ieee")
                        i = tl.dot(y, tl.load(w + CELLS), i, input_precision="ieee")
                        o = tl.dot(y, tl.load(w + (GATES - 1) * CELLS), o, input_precision="ieee")
                        if GATES == 4:
                            f = tl.dot(y, tl.load(w + 2 * CELLS), f, input_precision="ieee")
                y_g, i, o = _tanh(y_g), tl.sigmoid(i), tl.sigmoid(o)
                tl.store(at, y_g, mask=on)
                tl.store(at + CELLS, i, mask=on)
                tl.store(at + (GATES - 1) * CELLS, o, mask=on)
                c = i * y_g
                cell_at = now[:, None] * cell_stride + j + part[None, :]
                c_before = tl.load(cell + before[:, None] * cell_stride + j + part[None, :], mask=has_before, other=0.0)
                if GATES == 4:
                    f = tl.sigmoid(f)
                    tl.store(at + 2 * CELLS, f, mask=on)
                    c += f * c_before
                else:
                    c += c_before
                tl.store(cell + cell_at, c, mask=on)
                y = o * _tanh(c)
                tl.store(output + cell_at, tl.where(on, y, 0.0), mask=here[:, None])  # 0 after the end of a text
                last = r.to(tl.int64)[:, None] * cell_stride + j + part[None, :]
                tl.store(vectors + last, y, mask=on & (t == lengths - 1)[:, None])
        else:
            for j in range(0, CELLS, PART):
                cell_at = now[:, None] * cell_stride + j + part[None, :]
                tl.store(output + cell_at, tl.zeros((BLOCK, PART), tl.float32), mask=here[:, None])
        tl.debug_barrier()


@triton.jit
def run_backward(
    gates, recurrent, cell, d_vectors, d_output, d_cell, length, rows, words, gate_stride, cell_stride,
    CELLS: tl.constexpr, GATES: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr,
    BACKWARDS: tl.constexpr,
):  # fmt: skip
    """Go back through time. `gates` holds the activations, then the gradient of the sums of each token.

    `recurrent` is W_rec, (gates * cells, cells). `d_output` and `d_cell` hold the gradient that token t passes back.
    """
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = r < rows
    lengths = tl.load(length + r, mask=here, other=0)
    longest = tl.max(lengths, 0)
    part = tl.arange(0, PART)
    text = r.to(tl.int64)[:, None] * cell_stride + part[None, :]
    for back in range(0, words):
        t = words - 1 - back
        going = t < lengths
        place = tl.where(going, lengths - 1 - t if BACKWARDS else t, t)
        now = place.to(tl.int64) * rows + r
        before = now + rows if BACKWARDS else now - rows
        on = going[:, None]
        has_before = (going & (lengths * 0 + t > 0))[:, None]  # a tensor: t alone may be a plain number
        further = (t + 1 < lengths)[:, None] & on
        if t < longest:
            for j in range(0, CELLS, PART):
                at = gates + now[:, None] * gate_stride + j + part[None, :]
                cell_at = cell + now[:, None] * cell_stride + j + part[None, :]
                y_g, i = tl.load(at, mask=on, other=0.0), tl.load(at + CELLS, mask=on, other=0.0)
                o = tl.load(at + (GATES - 1) * CELLS, mask=on, other=0.0)
                tanh_c = _tanh(tl.load(cell_at, mask=on, other=0.0))
                dy = tl.load(d_vectors + text + j, mask=on & (t == lengths - 1)[:, None], other=0.0)
                dy += tl.load(d_output + text + j, mask=further, other=0.0)
                dc = dy * o * (1 - tanh_c * tanh_c) + tl.load(d_cell + text + j, mask=further, other=0.0)
                tl.store(at, dc * i * (1 - y_g * y_g), mask=here[:, None])  # 0 after the end of a text
                tl.store(at + CELLS, dc * y_g * i * (1 - i), mask=here[:, None])
                tl.store(at + (GATES - 1) * CELLS, dy * tanh_c * o * (1 - o), mask=here[:, None])
                if GATES == 4:
                    f = tl.load(at + 2 * CELLS, mask=on, other=0.0)
                    c_before = tl.load(
                        cell + before[:, None] * cell_stride + j + part[None, :], mask=has_before, other=0.0
                    )
                    tl.store(at + 2 * CELLS, dc * c_before * f * (1 - f), mask=here[:, None])
                    dc = dc * f
                tl.store(d_cell + text + j, dc, mask=on)
            tl.debug_barrier()
            if t > 0:
                for j in range(0, CELLS, PART):
                    dy = tl.zeros((BLOCK, PART), tl.float32)
                    for k in range(0, GATES * CELLS, PART):
                        d_sums = tl.load(gates + now[:, None] * gate_stride + k + part[None, :], mask=on, other=0.0)
                        w = tl.load(recurrent + (k + part)[:, None] * CELLS + j + part[None, :])
                        dy = tl.dot(d_sums, w, dy, input_precision="ieee")
                    tl.store(d_output + text + j, dy, mask=on)
        else:
            for k in range(0, GATES * CELLS, PART):
                at = gates + now[:, None] * gate_stride + k + part[None, :]
                tl.store(at, tl.zeros((BLOCK, PART), tl.float32), mask=here[:, None])
        tl.debug_barrier()


@triton.jit
def hide_clicked(counts, column, query, pairs, clicked_begin, clicked, hidden, titles, FEW: tl.constexpr):
    """Mask and count the titles of a minibatch that were clicked for each query."""
    r = tl.program_id(0)
    if r < tl.load(pairs):
        asked = tl.load(query + r)
        first, end = tl.load(clicked_begin + asked), tl.load(clicked_begin + asked + 1)
        for some in range(first, end, FEW):
            at = some + tl.arange(0, FEW)
            title = tl.load(clicked + at, mask=at < end, other=0)
            place = tl.load(column + title, mask=at < end, other=-1)
            tl.store(counts + r.to(tl.int64) * titles + place, tl.zeros((FEW,), tl.int1), mask=place >= 0)
            tl.atomic_add(hidden, tl.sum((place >= 0).to(tl.int32), 0), sem="relaxed")


@triton.jit
def soft_losses(cosines, positive, counts, weight, losses, gamma, titles, COLUMNS: tl.constexpr):
    """Compute equation 5 with all unmasked titles of the minibatch as negatives; its gradient overwrites the cosines.

    The terms of the sum are 1 and exp(-γ Δ_j), all divided by the greatest, exp(`far`), to avoid overflow.
    """
    r = tl.program_id(0)
    row, which = cosines + r.to(tl.int64) * titles, counts + r.to(tl.int64) * titles
    clicked, own = tl.load(positive + r), tl.load(weight + r)
    best = tl.load(row + clicked)
    far = best * 0.0
    for first in range(0, titles, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        on = tl.load(which + columns, mask=columns < titles, other=0) != 0
        exponents = gamma * (tl.load(row + columns, mask=on, other=0.0) - best)
        far = tl.maximum(far, tl.max(tl.where(on, exponents, 0.0), 0))
    others = best * 0.0
    for first in range(0, titles, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        on = tl.load(which + columns, mask=columns < titles, other=0) != 0
        exponents = gamma * (tl.load(row + columns, mask=on, other=0.0) - best)
        others += tl.sum(tl.where(on, tl.exp(exponents - far), 0.0), 0)
    total = tl.exp(-far) + others
    tl.store(losses + r, own * (far + tl.log(total)))
    for first in range(0, titles, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        on = tl.load(which + columns, mask=columns < titles, other=0) != 0
        exponents = gamma * (tl.load(row + columns, mask=on, other=0.0) - best)
        share = tl.where(on, tl.exp(exponents - far) / total, 0.0)
        share = tl.where(columns == clicked, -others / total, share)  # the clicked title is not its own negative
        tl.store(row + columns, own * gamma * share, mask=columns < titles)
