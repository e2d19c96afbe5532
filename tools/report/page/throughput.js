// GB/s of offload and restore per context, with spread, beside the ceilings that were measured at
// the same moment.
'use strict';

const kSides = [
  {name: 'restore', verb: 'read', title: 'Restore, verified'},
  {name: 'offload', verb: 'write', title: 'Offload'},
];
// In a chart of lines they are dashed, in one of bars they have a sign.
const kCeilings = [
  {prefix: '', name: 'fio', dash: [7, 4], kind: 'dashed', sign: {style: 'circle', text: '○'}},
  {
    prefix: 'huge_',
    name: 'fio with huge pages',
    dash: [9, 3, 2, 3],
    kind: 'dashed',
    sign: {style: 'rect', text: '□'}
  },
  {
    prefix: 'raw_',
    name: 'raw (no hashing, no records)',
    dash: [2, 4],
    kind: 'dotted',
    sign: {style: 'triangle', text: '△'}
  },
];

// Ceilings of one label; several stores ran beside it, so it is the median of theirs.
function ceilingLines(rows, side, identity) {
  const lines = [];
  for (const label of unique(rows.map((row) => row.label))) {
    for (const ceiling of kCeilings) {
      const points = pointsOf(
          rows.filter((row) => row.label === label),
          `ceiling.${ceiling.prefix}${side.verb}_gb_per_s`);
      points.forEach((point) => {
        point.noisy = false;
      });
      if (points.length > 0)
        lines.push({label, ceiling, points, name: ceilingName(ceiling, label, identity)});
    }
  }
  return lines;
}

function ceilingName(ceiling, label, identity) {
  return identity.labels.length > 1 ? `${ceiling.name}, ${labelName(label)}` : ceiling.name;
}

function ceilingDatasets(rows, side, identity) {
  return ceilingLines(rows, side, identity)
      .map(({label, ceiling, points, name}) => lineDataset(points, {
             key: `ceiling ${name}`,
             label: name,
             colourName: '--ceiling',
             dash: ceiling.dash,
             width: 1.5,
             pointStyle: identity.pointStyle(label),
             pointRadius: 3,
           }));
}

function storeDatasets(rows, side, identity) {
  return [...groupRows(rows, seriesKey).values()]
      .map((group) => {
        const points =
            pointsOf(group, `${side.name}.gb_per_s`, (json) => rateRange(json, side.name));
        const name = seriesName(group[0], identity.labels);
        return lineDataset(points, {
          key: name,
          label: name,
          colourName: identity.colourName(group[0]),
          dash: identity.dash(group[0]),
          pointStyle: identity.pointStyle(group[0].label),
        });
      })
      .filter((dataset) => dataset.data.length > 0);
}

function ratioText(rows, path, what) {
  const ratios = rows.map((row) => numberAt(row.json, path)).filter((ratio) => ratio !== null);
  return ratios.length === 0 ? null : `${digits(median(ratios), 2)} of ${what}`;
}

function tellRate(side, dataset, point) {
  const lines = [`${dataset.label}: ${rateText(point.y)} GB/s`];
  if (dataset.key.startsWith('ceiling')) return lines;
  if (point.range !== null)
    lines.push(`from ${rateText(point.range[0])} to ${rateText(point.range[1])}`);
  lines.push(ratioText(point.rows, `ceiling.${side.verb}_efficiency`, 'fio (pairs)'));
  lines.push(ratioText(point.rows, `ceiling.raw_${side.verb}_efficiency`, 'raw (pairs)'));
  if (side.name === 'offload')
    lines.push(unique(point.rows.map((row) => row.json.cell.durability ?? '')).join(', '));
  if (point.noisy) lines.push('noisy');
  return lines.filter((line) => line !== null && line !== '');
}

// Where there is one context only, stores stand below each other, each with the ceilings beside it.
function storeBar(groups, index, side, identity) {
  const row = groups[index][0];
  const name = seriesName(row, identity.labels);
  const [point] =
      pointsOf(groups[index], `${side.name}.gb_per_s`, (json) => rateRange(json, side.name));
  const fill = colour(identity.colourName(row));
  const only = (value) => groups.map((group, i) => (i === index ? value : null));
  return {
    type: 'bar',
    key: name,
    label: name,
    data: only(point.y),
    ranges: only(point.range),
    points: only(point),
    backgroundColor: point.noisy ? colour('--surface') : fill,
    borderColor: fill,
    borderWidth: 2,
    whiskerColor: colour('--ink'),
    grouped: false,
    maxBarThickness: 16,
    order: 2,
  };
}

function ceilingTicks(groups, side) {
  return kCeilings
      .map((ceiling) => {
        const path = `ceiling.${ceiling.prefix}${side.verb}_gb_per_s`;
        const points = groups.map((group) => pointsOf(group, path)[0] ?? null);
        return {
          type: 'line',
          key: `ceiling ${ceiling.name}`,
          label: ceiling.name,
          showLine: false,
          data: points.map((point) => (point === null ? null : point.y)),
          points,
          pointStyle: ceiling.sign.style,
          pointRadius: 6,
          pointHoverRadius: 8,
          borderColor: colour('--ink'),
          backgroundColor: colour('--surface'),
          borderWidth: 2,
          order: 1,
        };
      })
      .filter((dataset) => dataset.data.some((value) => value !== null));
}

function barsConfig(groups, names, side, identity) {
  const bars = groups.map((group, i) => storeBar(groups, i, side, identity));
  const tell = (item) => tellRate(side, item.dataset, item.dataset.points[item.dataIndex]);
  return {
    type: 'bar',
    data: {labels: names, datasets: [...bars, ...ceilingTicks(groups, side)]},
    options: {
      indexAxis: 'y',
      interaction: {mode: 'nearest', intersect: false},
      scales: {x: rateAxis(bars), y: nameAxis(names)},
      plugins: {legend: {display: false}, tooltip: {callbacks: {label: tell}}},
    },
  };
}

function rateBars(title, rows, side, identity) {
  const {shown: groups, rest} = chartRows([...groupRows(rows, seriesKey).values()]);
  const names = groups.map((group) => seriesName(group[0], identity.labels));
  const says = 'GB/s of each store with the ceilings beside it; the table below has the figures';
  const drawn = chart(
      `${title}, ${tokensText(rows[0].ctx)} tokens`, 90 + 32 * groups.length, says,
      () => barsConfig(groups, names, side, identity));
  return element('div', {}, drawn, rest);
}

function rateLines(title, rows, side, identity) {
  const says = 'GB/s for each context and store; the table below has the figures';
  return chart(title, 320, says, () => {
    const datasets =
        [...storeDatasets(rows, side, identity), ...ceilingDatasets(rows, side, identity)];
    return lineChart({
      datasets,
      contexts: contextsOf(rows),
      yAxis: rateAxis(datasets),
      tell: (dataset, point) => tellRate(side, dataset, point),
    });
  });
}

function rateChart(rows, side, identity) {
  const path = `${side.name}.gb_per_s`;
  const measured =
      rows.filter((row) => row.ctx !== null && numberAt(row.json, path) !== null && !row.failed);
  if (measured.length === 0) {
    const reasons = reasonsFor(rows, path).map((why) => `not measured: ${why}`);
    return element('div', {}, element('h3', {}, side.title), list(reasons));
  }
  const durabilities = unique(measured.map((row) => textAt(row.json, 'cell.durability')));
  const known = durabilities.filter((text) => text !== null);
  const title = side.name === 'offload' && known.length > 0 ?
      `${side.title}, ${known.join(' or ')}` :
      side.title;
  const draw = contextsOf(measured).length === 1 ? rateBars : rateLines;
  return draw(title, measured, side, identity);
}

function storeLegend(rows, identity) {
  return [...groupRows(rows, seriesKey).values()].map((group) => {
    const name = seriesName(group[0], identity.labels);
    return {
      key: name,
      text: name,
      colourName: identity.colourName(group[0]),
      sign: identity.sign(group[0].label),
      kind: identity.dash(group[0]).length > 0 ? 'dashed' : ''
    };
  });
}

function ceilingLegend(all, identity) {
  const rows = all.filter((row) => !row.failed);
  const bars = contextsOf(rows).length === 1;
  const entries = new Map();
  for (const line of kSides.flatMap((side) => ceilingLines(rows, side, identity))) {
    const text = bars ? line.ceiling.name : line.name;
    const sign = bars ? line.ceiling.sign.text : '';
    const kind = bars ? 'none' : line.ceiling.kind;
    entries.set(text, {key: `ceiling ${text}`, text, colourName: '--ceiling', kind, sign});
  }
  return [...entries.values()];
}

function missingCeilings(all) {
  const rows = all.filter((row) => !row.failed);
  const texts = [];
  for (const side of kSides) {
    for (const ceiling of kCeilings) {
      const path = `ceiling.${ceiling.prefix}${side.verb}_gb_per_s`;
      if (rows.some((row) => numberAt(row.json, path) !== null)) continue;
      for (const why of reasonsFor(rows, path))
        texts.push(`${ceiling.name}, ${side.verb}: not measured: ${why}`);
    }
  }
  return texts.length > 0 ? [list(texts)] : [];
}

function throughputSection(rows, identity) {
  if (rows.length === 0) return null;
  const made = section(
      'throughput', 'GB/s per context, against the ceilings',
      note(
          'Bytes of stored records over wall time, medians of the repetitions, GB = 10^9 ' +
          'bytes; whiskers from the slowest to the fastest. D1: until the data are durable, ' +
          'D0: until the writes completed. Ceilings were measured after each repetition, on ' +
          'the same filesystem with the same bytes; with several stores the median of theirs' +
          ' is drawn. A click on a name hides it.'));
  for (const [shape, group] of groupRows(rows, (row) => row.shape)) {
    made.append(
        element('h3', {}, shape),
        legend([...storeLegend(group, identity), ...ceilingLegend(group, identity)]),
        element('div', {class: 'grid'}, kSides.map((side) => rateChart(group, side, identity))),
        ...missingCeilings(group));
  }
  return made;
}
