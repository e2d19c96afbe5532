// Heat maps of sweeps: I/O size down, queue depth across, GB/s as the colour, the knee outlined.
'use strict';

const kKneeShare = 0.95;
// From here on the colour is strong enough to need the other ink.
const kStrongShare = 0.66;

// What one map has in common, as text.
function mapTitle(row, labels) {
  const cell = row.json.cell;
  const yesNo = (value, yes, no) => (value === true ? yes : value === false ? no : '');
  return [
    textAt(row.json, 'cell.op') ?? 'I/O',
    textAt(row.json, 'cell.ioengine') ?? '',
    yesNo(cell.direct, 'direct', 'buffered'),
    yesNo(cell.registered, 'registered', 'not registered'),
    textAt(row.json, 'cell.order') ?? '',
    row.store,
    labels.length > 1 || row.label !== '' ? labelName(row.label) : '',
  ].filter((part) => part !== '')
      .join(', ');
}

function heatCells(rows) {
  const cells = new Map();
  for (const row of rows) {
    const key = `${blockBytes(row.json)} ${numberAt(row.json, 'cell.iodepth')}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(row);
  }
  return cells;
}

function cellRate(rows) {
  const rates = (rows ?? [])
                    .filter((row) => !row.failed)
                    .map((row) => numberAt(row.json, 'gb_per_s'))
                    .filter((rate) => rate !== null);
  return rates.length === 0 ? null : median(rates);
}

function cellTime(rows, path) {
  const times = rows.map((row) => numberAt(row.json, path)).filter((time) => time !== null);
  return times.length === 0 ? null : median(times);
}

// The depth that the rows name; none where they say why there is none; else the smallest with 95 %
// of this size's peak.
function kneeOf(depths, cellAt) {
  for (const depth of depths) {
    for (const row of cellAt(depth) ?? []) {
      if (row.json.knee === true) return depth;
      if (row.json.knee === null && row.json.knee_reason) return null;
      const named = numberAt(row.json, 'knee') ?? numberAt(row.json, 'knee.iodepth');
      if (named !== null && depths.includes(named)) return named;
    }
  }
  const peak = Math.max(0, ...depths.map((depth) => cellRate(cellAt(depth)) ?? 0));
  if (peak === 0) return null;
  return depths.find((depth) => (cellRate(cellAt(depth)) ?? 0) >= kKneeShare * peak);
}

function heatCell(rows, peak, isKnee) {
  if (rows === undefined) return element('td', {class: 'absent'}, 'not run');
  const rate = cellRate(rows);
  if (rate === null) {
    const failed = rows.find((row) => row.failed);
    const why = failed === undefined ? reasonAt(rows[0].json, 'gb_per_s') :
                                       reasonAt(failed.json, 'gb_per_s');
    const what = failed === undefined ? 'not measured' : 'failed';
    return element('td', {class: 'absent', title: `${what}: ${why}`}, what);
  }
  const share = peak > 0 ? rate / peak : 0;
  const p50 = cellTime(rows, 'lat_ns.p50');
  const noisy = rows.some((row) => row.noisy);
  const made = element(
      'td', {class: `cell${share > kStrongShare ? ' strong' : ''}${isKnee ? ' knee' : ''}`},
      rateText(rate) + (noisy ? ' ~' : ''),
      p50 === null ? null : element('small', {}, timeText(p50)));
  made.style.setProperty('--share', String(0.06 + 0.9 * share));
  return made;
}

function kneeText(depth, rows) {
  const p50 = cellTime(rows, 'lat_ns.p50');
  const p99 = cellTime(rows, 'lat_ns.p99');
  const parts = [
    `depth ${depth}`, `${rateText(cellRate(rows))} GB/s`,
    p50 === null ? null : `p50 ${timeText(p50)}`, p99 === null ? null : `p99 ${timeText(p99)}`
  ];
  return parts.filter((part) => part !== null).join(', ');
}

function heatMap(rows, peak, labels) {
  const cells = heatCells(rows);
  const sizes = unique(rows.map((row) => blockBytes(row.json))).sort((a, b) => a - b);
  const depths =
      unique(rows.map((row) => numberAt(row.json, 'cell.iodepth'))).sort((a, b) => a - b);
  const body = sizes.map((size) => {
    const cellAt = (depth) => cells.get(`${size} ${depth}`);
    const knee = kneeOf(depths, cellAt);
    const kneeRows = knee === null || knee === undefined ? null : cellAt(knee);
    return element(
        'tr', {}, element('th', {scope: 'row'}, size === null ? 'size not given' : sizeText(size)),
        depths.map((depth) => heatCell(cellAt(depth), peak, depth === knee)),
        element(
            'td', {}, kneeRows && cellRate(kneeRows) !== null ? kneeText(knee, kneeRows) : '-'));
  });
  const head = element(
      'tr', {}, element('th', {scope: 'col'}, 'size \\ depth'),
      depths.map(
          (depth) =>
              element('th', {scope: 'col'}, depth === null ? 'depth not given' : String(depth))),
      element('th', {scope: 'col'}, 'knee'));
  return element(
      'div', {class: 'map'}, element('h3', {}, mapTitle(rows[0], labels)),
      element(
          'div', {class: 'scroll heat', tabindex: '0'},
          element('table', {}, element('thead', {}, head), element('tbody', {}, body))));
}

function sweepReasons(rows) {
  const texts = [];
  for (const path of ['gb_per_s', 'lat_ns.p50', 'lat_ns.p99']) {
    const lacking = rows.filter((row) => !row.failed && numberAt(row.json, path) === null);
    for (const why of reasonsFor(lacking, path)) texts.push(`${path} not measured: ${why}`);
  }
  return texts.length > 0 ? list(texts) : null;
}

function sweepSection(rows, labels) {
  if (rows.length === 0) return null;
  const rates = rows.filter((row) => !row.failed)
                    .map((row) => numberAt(row.json, 'gb_per_s'))
                    .filter((rate) => rate !== null);
  const peak = Math.max(0, ...rates);
  const groups = groupRows(rows, (row) => mapTitle(row, labels));
  return section(
      'sweep', 'Sweep: I/O size and queue depth',
      note(
          'GB/s, and below it the median latency. The colour goes from 0 to ' +
          `${rateText(peak)} GB/s, the same in all maps. Outlined: the knee, the smallest depth ` +
          'with 95 % of the peak of its size. A ~ marks noise.'),
      [...groups.values()].map((group) => heatMap(group, peak, labels)), sweepReasons(rows));
}
