// Rows of one shape, store, variant and label as points over the context, and the colours they
// have.
'use strict';

const kColours = 8;
const kPointStyles = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'crossRot'];
const kPointSigns = ['●', '▲', '■', '◆', '✶', '✕'];

// A store's colour and a label's sign are the same in all charts.
class Identity {
  constructor(rows) {
    this.labels = unique(rows.map((row) => row.label));
    this.stores = unique(rows.map((row) => `${row.store}|${row.variant}`));
  }

  colourName(row) {
    return `--series-${this.stores.indexOf(`${row.store}|${row.variant}`) % kColours}`;
  }

  // The ninth store looks like the first, dashed.
  dash(row) { return this.stores.indexOf(`${row.store}|${row.variant}`) < kColours ? [] : [10, 3]; }

  pointStyle(label) { return kPointStyles[this.labels.indexOf(label) % kPointStyles.length]; }

  sign(label) { return kPointSigns[this.labels.indexOf(label) % kPointSigns.length]; }
}

function groupRows(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return groups;
}

function seriesKey(row) { return JSON.stringify([row.shape, row.store, row.variant, row.label]); }

function contextsOf(rows) {
  return unique(rows.map((row) => row.ctx).filter((ctx) => ctx !== null)).sort((a, b) => a - b);
}

// The samples' GB/s, slowest and fastest; rates count stored bytes.
function rateRange(json, side) {
  const stored = numberAt(json, 'bytes.stored');
  const slowest = numberAt(json, `${side}.max_ns`);
  const fastest = numberAt(json, `${side}.min_ns`);
  if (stored === null || !slowest || !fastest) return null;
  return [stored / slowest, stored / fastest];
}

// One point for each context: the median of the rows that say it. `path` leads to the value,
// `rangeOf` to least and most.
function pointsOf(rows, path, rangeOf = () => null) {
  const points = [];
  for (const ctx of contextsOf(rows)) {
    const here =
        rows.filter((row) => row.ctx === ctx && !row.failed && numberAt(row.json, path) !== null);
    if (here.length === 0) continue;
    const ranges = here.map((row) => rangeOf(row.json)).filter((range) => range !== null);
    points.push({
      x: ctx,
      y: median(here.map((row) => numberAt(row.json, path))),
      range: ranges.length === 0 ?
          null :
          [Math.min(...ranges.map((one) => one[0])), Math.max(...ranges.map((one) => one[1]))],
      rows: here,
      noisy: here.some((row) => row.noisy),
    });
  }
  return points;
}
