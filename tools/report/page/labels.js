// Two labels side by side: the same shape, context and store under both, with ratio and spread.
'use strict';

const kMeasures = [
  {
    name: 'restore',
    path: 'restore.gb_per_s',
    range: (json) => rateRange(json, 'restore'),
    text: (value) => `${rateText(value)} GB/s`,
    cv: 'restore.cv',
    more: true
  },
  {
    name: 'offload',
    path: 'offload.gb_per_s',
    range: (json) => rateRange(json, 'offload'),
    text: (value) => `${rateText(value)} GB/s`,
    cv: 'offload.cv',
    more: true
  },
  {
    name: 'TTFT of a restore',
    path: 'ttft.restore.total_ns',
    range: () => null,
    text: timeText,
    cv: null,
    more: false
  },
];

// Without the label; a store's path counts only where its name needs it.
function pairKey(row) { return JSON.stringify([row.shape, row.ctx, row.store, row.variant]); }

function sideOf(rows, measure) {
  const [point] = pointsOf(rows, measure.path, measure.range);
  if (point === undefined) return null;
  const spreads = measure.cv === null ?
      [] :
      point.rows.map((row) => numberAt(row.json, measure.cv)).filter((cv) => cv !== null);
  return {
    value: point.y,
    range: point.range,
    cv: spreads.length > 0 ? Math.max(...spreads) : null,
    noisy: point.noisy
  };
}

// What both labels measured; `alone` counts the groups that only one has.
function comePairs(rows, first, second) {
  const pairs = [];
  let alone = 0;
  for (const group of groupRows(rows.filter((row) => row.ctx !== null), pairKey).values()) {
    const of = (label) => group.filter((row) => row.label === label);
    if (of(first).length === 0 && of(second).length === 0) continue;
    if (of(first).length === 0 || of(second).length === 0) {
      ++alone;
      continue;
    }
    for (const measure of kMeasures) {
      const [a, b] = [sideOf(of(first), measure), sideOf(of(second), measure)];
      if (a !== null && b !== null)
        pairs.push({row: group[0], measure, a, b, ratio: b.value / a.value});
    }
  }
  return {pairs, alone};
}

// The slowest of one over the fastest of the other, and the other way round.
function ratioRange({a, b}) {
  return a.range === null || b.range === null ? null :
                                                [b.range[0] / a.range[1], b.range[1] / a.range[0]];
}

function verdictOf(pair) {
  const range = ratioRange(pair);
  if (range === null) return 'spread not measured';
  if (range[0] <= 1 && range[1] >= 1) return 'within the spread';
  return pair.ratio > 1 === pair.measure.more ? 'better' : 'worse';
}

function pairName(pair) {
  const {row} = pair;
  return [row.shape, tokensText(row.ctx), row.store, row.variant]
      .filter((part) => part !== '')
      .join(', ');
}

function pairsTable(pairs, first, second) {
  const spread = (side) =>
      (side.cv === null ? '-' : percentText(side.cv) + (side.noisy ? ' noisy' : ''));
  const columns = [
    {title: 'what'}, {title: 'measure'}, {title: labelName(first), number: true},
    {title: 'spread', number: true}, {title: labelName(second), number: true},
    {title: 'spread', number: true}, {title: 'ratio', number: true},
    {title: 'ratio from to', number: true}, {title: labelName(second) + ' is'}
  ];
  return table(columns, pairs.map((pair) => {
    const range = ratioRange(pair);
    return {
      kind: pair.a.noisy || pair.b.noisy ? 'warn' : null,
      cells: [
        textCell(pairName(pair)),
        textCell(pair.measure.name),
        numberCell(pair.measure.text(pair.a.value)),
        numberCell(spread(pair.a)),
        numberCell(pair.measure.text(pair.b.value)),
        numberCell(spread(pair.b)),
        numberCell(digits(pair.ratio, 3)),
        numberCell(range === null ? '-' : `${digits(range[0], 2)} to ${digits(range[1], 2)}`),
        textCell(verdictOf(pair)),
      ]
    };
  }));
}

function labelDataset(pairs, label, side, index) {
  const fill = colour(`--label-${index}`);
  return {
    key: `side ${index}`,
    label: labelName(label),
    data: pairs.map((pair) => pair[side].value),
    ranges: pairs.map((pair) => pair[side].range),
    backgroundColor: pairs.map((pair) => pair[side].noisy ? colour('--surface') : fill),
    borderColor: fill,
    borderWidth: 2,
    whiskerColor: colour('--ink'),
    maxBarThickness: 14,
  };
}

function pairsConfig(pairs, names, first, second) {
  const datasets = [labelDataset(pairs, first, 'a', 0), labelDataset(pairs, second, 'b', 1)];
  const tell = (item) => `${item.dataset.label}: ${rateText(item.parsed.x)} GB/s`;
  return {
    type: 'bar',
    data: {labels: names, datasets},
    options: {
      indexAxis: 'y',
      interaction: {mode: 'index', axis: 'y', intersect: false},
      scales: {x: rateAxis(datasets), y: nameAxis(names)},
      plugins: {legend: {display: false}, tooltip: {callbacks: {label: tell}}},
    },
  };
}

function pairsChart(pairs, first, second) {
  const {shown, rest} = chartRows(pairs.filter((pair) => pair.measure.more));
  if (shown.length === 0) return note('Both labels have no rate in common.');
  const shapes = unique(shown.map((pair) => pair.row.shape)).length;
  const names = shown.map(({measure, row}) => {
    const parts = [measure.name, tokensText(row.ctx), row.store, shapes > 1 ? row.shape : ''];
    return parts.filter((part) => part !== '').join('  ');
  });
  const drawn = chart(
      `${labelName(first)} and ${labelName(second)}`, 90 + 44 * shown.length,
      'GB/s of both labels with their spread', () => pairsConfig(shown, names, first, second));
  return element('div', {}, drawn, rest);
}

function forgetCharts(box) {
  for (let i = drawnCharts.length - 1; i >= 0; --i) {
    if (!box.contains(drawnCharts[i].canvas)) continue;
    if (drawnCharts[i].chart !== null) drawnCharts[i].chart.destroy();
    drawnCharts.splice(i, 1);
  }
}

function showPair(box, rows, first, second) {
  forgetCharts(box);
  const {pairs, alone} = comePairs(rows, first, second);
  const names = [first, second].map(
      (label, i) =>
          ({key: `side ${i}`, text: labelName(label), colourName: `--label-${i}`, kind: 'block'}));
  const content = pairs.length === 0 ?
      [note('These two labels have no shape, context and store in common that both measured.')] :
      [legend(names), pairsChart(pairs, first, second), pairsTable(pairs, first, second)];
  box.replaceChildren(...content);
  if (alone > 0)
    box.append(
        note(`${countText(alone, 'measurement is', 'measurements are')} of one of the two only.`));
}

function labelSelect(labels, chosen, change) {
  const made = element(
      'select', {},
      labels.map(
          (label) => element(
              'option', {value: label, selected: label === chosen ? '' : null}, labelName(label))));
  made.addEventListener('change', change);
  return made;
}

function labelsSection(rows, labels) {
  if (labels.length < 2 || rows.length === 0) return null;
  const box = element('div');
  const draw = () => {
    showPair(box, rows, first.value, second.value);
    drawCharts();
  };
  const first = labelSelect(labels, labels[0], draw);
  const second = labelSelect(labels, labels[1], draw);
  showPair(box, rows, labels[0], labels[1]);
  return section(
      'labels', 'Two labels side by side',
      note(
          'Medians, with the standard deviation of the repetitions as spread; the ratio is ' +
          'the second over the first, its range the slowest repetition of one over the ' +
          'fastest of the other. Labels measured at different times may differ by more than ' +
          'that: take ratios from runs that alternate.'),
      labels.length > 2 ? element(
                              'p', {class: 'pick'}, element('label', {}, 'first ', first),
                              element('label', {}, 'second ', second)) :
                          null,
      box);
}
