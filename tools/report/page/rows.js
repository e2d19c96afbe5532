// What a row says, and what it says of what it lacks.
'use strict';

function at(row, path) {
  return path.split('.').reduce(
      (value, name) => (value === null || typeof value !== 'object' ? undefined : value[name]),
      row);
}

// The number at the path, else null: text and true are none.
function numberAt(row, path) {
  const value = at(row, path);
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function textAt(row, path) {
  const value = at(row, path);
  return typeof value === 'string' && value !== '' ? value : null;
}

// Why there is no value: the nearest NAME_reason on the way to it, else what made the row fail.
function reasonAt(row, path) {
  const names = path.split('.');
  for (let length = 1; length <= names.length; ++length) {
    const here = names.slice(0, length).join('.');
    if (at(row, here) !== null && at(row, here) !== undefined) continue;
    const reason = textAt(row, `${here}_reason`) ??
        (length > 1 ? textAt(row, `${names.slice(0, length - 1).join('.')}.reason`) : null);
    if (reason !== null) return reason;
    break;
  }
  const reasons = reasonsOf(row);
  return row.status === 'failed' && reasons.length > 0 ? reasons[0] : 'the row does not say why';
}

function reasonsOf(row) {
  return Array.isArray(row.reasons) ? row.reasons.filter((one) => typeof one === 'string') : [];
}

function isFailed(row) { return row.status === 'failed' || at(row, 'verify.status') === 'differs'; }

// The reasons of all rows for a value that none of them has, each once.
function reasonsFor(rows, path) { return unique(rows.map((row) => reasonAt(row.json, path))); }

function blockBytes(json) {
  return numberAt(json, 'cell.bs_bytes') ?? numberAt(json, 'cell.record_bytes') ??
      numberAt(json, 'cell.block_bytes');
}

// "slab:/data/kv?iodepth=4" is KIND, path and options.
function splitStore(spec) {
  const parts = /^([a-z]+):([^?#]*)(\?[^#]*)?/.exec(spec);
  return parts === null ? {short: spec, path: ''} :
                          {short: parts[1] + (parts[3] ?? ''), path: parts[2]};
}

// Without the path, which says nothing where a label has each kind of store once.
function nameStores(rows) {
  const paths = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.label, row.storeParts.short]);
    paths.set(key, (paths.get(key) ?? new Set()).add(row.storeParts.path));
  }
  const ambiguous = new Set();
  for (const [key, found] of paths) {
    if (found.size > 1) ambiguous.add(JSON.parse(key)[1]);
  }
  for (const row of rows) {
    row.store = ambiguous.has(row.storeParts.short) ? row.spec : row.storeParts.short;
  }
}

function shapeOf(json) {
  const name = textAt(json, 'model.name') ?? 'unnamed model';
  const dtype = textAt(json, 'cell.kv_dtype') ?? textAt(json, 'model.dtype');
  return dtype === null ? name : `${name} ${dtype}`;
}

function makeRow(entry, index) {
  const json = entry.row;
  const spec = textAt(json, 'cell.store') ?? textAt(json, 'store.spec') ?? 'unnamed store';
  return {
    index,
    json,
    place: `${entry.file} line ${entry.line}`,
    isSweep: json.schema.startsWith('kvbed-sweep/'),
    label: textAt(json, 'cell.label') ?? '',
    spec,
    storeParts: splitStore(spec),
    store: spec,
    shape: shapeOf(json),
    ctx: numberAt(json, 'cell.ctx_tokens') > 0 ? numberAt(json, 'cell.ctx_tokens') : null,
    variant: '',
    conditions: conditionsOf(json),
    failed: isFailed(json),
    noisy: json.noisy === true,
  };
}

// What sets rows apart that agree in shape, store, label and context, say "iodepth 4".
const kKnownCellFields =
    ['ctx_tokens', 'store', 'label', 'blocks', 'file_state', 'record_bytes', 'durability'];

// What the store went through before is beside the cell.
function conditionsOf(json) {
  const told = (name) => at(json, name) !== null && at(json, name) !== undefined;
  const conditions = {...json.cell};
  if (told('aged')) conditions.aged = true;
  const bytes = numberAt(json, 'working_set.bytes');
  if (bytes !== null) conditions.working_set_bytes = bytes;
  return conditions;
}

function nameVariants(rows) {
  const varying = new Set();
  for (const group of groupRows(rows, (row) => JSON.stringify([
         row.shape, row.store, row.label, row.ctx
       ])).values()) {
    for (const name of unique(group.flatMap((row) => Object.keys(row.conditions)))) {
      if (kKnownCellFields.includes(name) || name.endsWith('_reason')) continue;
      if (unique(group.map((row) => JSON.stringify(row.conditions[name] ?? null))).length > 1)
        varying.add(name);
    }
  }
  for (const row of rows) {
    const told = [...varying].filter((name) => (row.conditions[name] ?? null) !== null);
    row.variant = told.map((name) => `${name} ${valueText(name, row.conditions[name])}`).join(', ');
  }
}

function readRows(entries) {
  const rows = entries.map(makeRow);
  nameStores(rows);
  const bench = rows.filter((row) => !row.isSweep);
  nameVariants(bench);
  return {all: rows, bench, sweep: rows.filter((row) => row.isSweep)};
}

function labelName(label) { return label === '' ? 'no label' : label; }

// "slab, iodepth 4, new disk"; a label only where there are several.
function seriesName(row, labels) {
  return [row.store, row.variant, labels.length > 1 ? labelName(row.label) : '']
      .filter((part) => part !== '')
      .join(', ');
}

function sweepName(row) {
  const cell = row.json.cell;
  const size = blockBytes(row.json);
  const parts = [
    `sweep ${cell.op ?? ''}`.trim(), size === null ? '' : sizeText(size),
    cell.iodepth === undefined ? '' : `depth ${cell.iodepth}`
  ];
  return [...parts, cell.ioengine ?? '', row.store].filter((part) => part !== '').join(', ');
}

function rowName(row, labels) {
  const label = labels.length > 1 ? `, ${labelName(row.label)}` : '';
  if (row.isSweep) return sweepName(row) + label;
  const ctx = row.ctx === null ? '' : `${tokensText(row.ctx)}, `;
  return `${row.shape}, ${ctx}${seriesName(row, labels)}`;
}
