"""The paper's equations with plain loops over tasks, draws, samples and attention heads.

Slow on purpose: nothing here is batched over anything but the units of a layer. It reads the
weights of an `NPNetwork` and nothing else of it.
"""
import math

import torch


def linear(layer, x):
    """nn.Linear on one vector."""
    out = layer.weight @ x
    return out if layer.bias is None else out + layer.bias


def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean()
    variance = ((x - mean) ** 2).mean()
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def sequential(layers, x):
    """An `encoders.mlp` on one vector."""
    for layer in layers:
        if isinstance(layer, torch.nn.Linear):
            x = linear(layer, x)
        elif isinstance(layer, torch.nn.LayerNorm):
            x = layer_norm(x, layer.weight, layer.bias)
        else:
            x = torch.relu(x)
    return x


def stacked_linear(layer, task, x):
    return x @ layer.weight[task] + layer.bias[task]


def stacked_mlp(layers, task, x):
    for i, layer in enumerate(layers.hidden):
        x = stacked_linear(layer, task, x)
        if len(layers.norms):
            norm = layers.norms[i]
            x = layer_norm(x, norm.weight[task], norm.bias[task])
        x = torch.relu(x)
    return stacked_linear(layers.out, task, x)


def attend(query, keys, values, heads):
    """One query against all keys, head by head."""
    size = len(query) // heads
    parts = []
    for h in range(heads):
        here = slice(h * size, (h + 1) * size)
        scores = torch.stack([(query[here] * key[here]).sum() / math.sqrt(size) for key in keys])
        weights = torch.exp(scores - scores.max())
        weights = weights / weights.sum()
        parts.append(sum(w * value[here] for w, value in zip(weights, values, strict=True)))
    return torch.cat(parts)


def attention(block, keys, values, queries):
    """CA(K, V, Q) on lists of vectors."""
    k = [linear(block.key, x) for x in keys]
    v = [linear(block.value, x) for x in values]
    rows = []
    for x in queries:
        q = linear(block.query, x)
        mixed = linear(block.out, attend(q, k, v, block.n_attention_heads))
        rows.append(layer_norm(q + mixed, block.norm.weight, block.norm.bias))
    return rows


def self_attention(block, rows):
    """CA(S, S, S) on a list of vectors."""
    size = len(rows[0])
    k = [linear(block.project, x)[size:2 * size] for x in rows]
    v = [linear(block.project, x)[2 * size:] for x in rows]
    result = []
    for x in rows:
        q = linear(block.project, x)[:size]
        mixed = linear(block.out, attend(q, k, v, block.n_attention_heads))
        result.append(layer_norm(x + mixed, block.norm.weight, block.norm.bias))
    return result


def taskwise(block, task, rows):
    """SA^t over the rows of one task."""
    size = len(rows[0])
    k = [stacked_linear(block.project, task, x)[size:2 * size] for x in rows]
    v = [stacked_linear(block.project, task, x)[2 * size:] for x in rows]
    result = []
    for x in rows:
        q = stacked_linear(block.project, task, x)[:size]
        mixed = stacked_linear(block.out, task, attend(q, k, v, block.n_attention_heads))
        result.append(layer_norm(x + mixed, block.norm.weight[task], block.norm.bias[task]))
    return result


def phi(encoder, x, label):
    onehot = torch.zeros(encoder.n_classes, dtype=x.dtype)
    onehot[label] = 1
    return sequential(encoder.project, torch.cat((x, onehot)))


def mean_of(rows):
    return sum(rows) / len(rows)


def psi(heads, task, x):
    """(mean, sd) of one Gaussian; x is the summary, or the summary and z^G in one vector."""
    size, weight = heads.size, heads.from_summary.weight[task]
    if hasattr(heads.from_global, "weight"):
        weight = torch.cat((weight, heads.from_global.weight[task]))
    hidden = x @ weight + heads.from_summary.bias[task]
    if not hasattr(heads, "rest"):
        return hidden[:size], 0.1 + 0.9 * torch.sigmoid(hidden[size:])
    found = []
    for number, part in ((task, hidden[:size]), (heads.count + task, hidden[size:])):
        if hasattr(heads.norm, "weight"):
            part = layer_norm(part, heads.norm.weight[number], heads.norm.bias[number])
        found.append(stacked_mlp(heads.rest, number, torch.relu(part)))
    return found[0], 0.1 + 0.9 * torch.sigmoid(found[1])


def encode(net, x, labels, tasks):
    """({task: mean of its s}, (mu_G, sd_G) or None)."""
    latent, plan = net.latent, net.plan
    if not plan.has_global and not plan.has_task:
        return {}, None
    rows = [phi(latent.encoder, x[i], labels[i]) for i in range(len(labels))]
    summary = {}
    if plan.has_task:
        for task in sorted(set(tasks.tolist())):
            mine = [i for i in range(len(tasks)) if tasks[i] == task]
            attended = taskwise(latent.taskwise, task, [rows[i] for i in mine])
            for i, row in zip(mine, attended, strict=True):
                rows[i] = row
            summary[task] = mean_of(attended)
    if not plan.has_global:
        return summary, None
    if plan.attention:
        rows = self_attention(latent.across, rows)
    return summary, psi(latent.global_latent.psi, 0, mean_of(rows))


def decode(net, x, r, z):
    """Logits of one target with one draw."""
    decoder = net.decoder
    layers = [decoder.from_x, decoder.from_r, *([decoder.from_z] if len(z) else [])]
    whole = torch.cat([layer.weight for layer in layers], 1)
    logits = whole @ torch.cat((x, r, z)) + decoder.from_x.bias
    if hasattr(decoder, "rest"):
        hidden = logits
        if isinstance(decoder.norm, torch.nn.LayerNorm):
            hidden = layer_norm(hidden, decoder.norm.weight, decoder.norm.bias)
        logits = sequential(decoder.rest, torch.relu(hidden))
    return logits + linear(net.backbone.classifier, x) if net.plan.residual_decoder else logits


def deterministic(path, x_context, y_context, x):
    rows = [phi(path.encoder, x_context[i], y_context[i]) for i in range(len(y_context))]
    if not hasattr(path, "self_attention"):
        return [mean_of(rows) for _ in x]
    rows = self_attention(path.self_attention, rows)
    return attention(path.cross_attention, list(x_context), rows, list(x))


def kl(q, p):
    """Sum over units of KL between N(q) and N(p), each a pair (mean, sd)."""
    total = 0
    for m1, s1, m2, s2 in zip(q[0], q[1], p[0], p[1], strict=True):
        total = total + torch.log(s2 / s1) + (s1 ** 2 + (m1 - m2) ** 2) / (2 * s2 ** 2) - 0.5
    return total


def js(a, b):
    middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    return (kl(a, middle) + kl(b, middle)) / 2


def cross_entropy(logits, label):
    return torch.log(torch.exp(logits - logits.max()).sum()) + logits.max() - logits[label]


def training_pass(net, x, labels, tasks, context, noise_global, noise_task, from_context=False):
    """Equations 4 and 5, draw by draw.

    Args:
        noise_global: (N, O) or None.
        noise_task: {(m, n, task): (O,)} or None.

    Returns:
        logits[s][b], {"ce", "d_task" (list per task), "d_global"}, posterior of tasks[n][task].
    """
    latent, plan = net.latent, net.plan
    summary, global_q = encode(net, x, labels, tasks)
    prior_summary, global_p = encode(net, x[context], labels[context], tasks[context])
    r = deterministic(net.deterministic, x[context], labels[context], x)
    n_global = 1 if noise_global is None else len(noise_global)
    draws, posteriors, priors = [], [], []
    for n in range(n_global):
        z_global = None if global_q is None else global_q[0] + global_q[1] * noise_global[n]
        extra = [] if z_global is None else [z_global]
        if not plan.has_task:
            z = x[0, :0] if z_global is None else z_global
            draws.append({task: z for task in set(tasks.tolist())})
            continue
        posteriors.append({t: psi(latent.task_latent.psi, t, torch.cat([s, *extra]))
                           for t, s in summary.items()})
        priors.append({t: psi(latent.task_latent.psi, t, torch.cat([s, *extra]))
                       for t, s in prior_summary.items()})
    if plan.has_task:
        source = priors if from_context else posteriors
        for m in range(1 + max(key[0] for key in noise_task)):
            for n in range(n_global):
                draws.append({t: mean + sd * noise_task[m, n, t]
                              for t, (mean, sd) in source[n].items()})
    logits = [[decode(net, x[b], r[b], draw[int(tasks[b])]) for b in range(len(x))]
              for draw in draws]
    ce = sum(cross_entropy(row[b], labels[b]) for row in logits for b in range(len(x)))
    terms = {"ce": ce / (len(draws) * len(x))}
    if global_q is not None:
        terms["d_global"] = kl(global_q, global_p)
    if posteriors:
        terms["d_task"] = {t: sum(kl(posteriors[n][t], priors[n][t]) for n in range(n_global))
                           / n_global for t in summary}
    return logits, terms, posteriors, global_q
