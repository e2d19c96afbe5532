// Restores beside an offload that ran at a stated rate, next to the same restores alone.
'use strict';

const kMixArms = [
  {name: 'alone', colourName: '--label-0', rate: 'restore.gb_per_s', lat: 'mix.alone_lat_ns'},
  {
    name: 'beside the offload',
    colourName: '--label-1',
    rate: 'mix.restore_gb_per_s',
    lat: 'mix.lat_ns'
  },
];
const kMixOffloaded = {
  name: 'offloaded meanwhile',
  path: 'mix.offload_gb_per_s'
};

function hasMix(row) { return numberAt(row.json, 'mix.restore_gb_per_s') !== null; }

// Of rows that were to be measured so; the others weren't asked.
function mixFailures(rows) {
  return rows.filter((row) => !hasMix(row) && at(row.json, 'mix') === null)
      .filter((row) => textAt(row.json, 'mix_reason') !== null)
      .filter((row) => !textAt(row.json, 'mix_reason').startsWith('not asked for'));
}

// The samples' GB/s, slowest and fastest.
function mixRange(json) {
  const stored = numberAt(json, 'bytes.stored');
  const samples = at(json, 'mix.samples_ns');
  if (stored === null || !Array.isArray(samples)) return null;
  const rates = samples.filter((ns) => Number.isFinite(ns) && ns > 0).map((ns) => stored / ns);
  return rates.length === 0 ? null : [Math.min(...rates), Math.max(...rates)];
}

function mixNames(rows, identity) {
  const shapes = unique(rows.map((row) => row.shape)).length;
  return rows.map(
      (row) => (row.ctx === null ? '' : `${tokensText(row.ctx)}  `) +
          seriesName(row, identity.labels) + (shapes > 1 ? `, ${row.shape}` : ''));
}

function mixBars(rows, arm) {
  const fill = colour(arm.colourName);
  const alone = arm === kMixArms[0];
  return {
    type: 'bar',
    key: `mix ${arm.name}`,
    label: arm.name,
    data: rows.map((row) => numberAt(row.json, arm.rate)),
    ranges: rows.map((row) => (alone ? rateRange(row.json, 'restore') : mixRange(row.json))),
    backgroundColor: rows.map((row) => (alone && row.noisy ? colour('--surface') : fill)),
    borderColor: fill,
    borderWidth: 2,
    whiskerColor: colour('--ink'),
    maxBarThickness: 12,
    order: 2,
  };
}

function mixOffloaded(rows) {
  return {
    type: 'line',
    key: `mix ${kMixOffloaded.name}`,
    label: kMixOffloaded.name,
    showLine: false,
    data: rows.map((row) => numberAt(row.json, kMixOffloaded.path)),
    pointStyle: 'rectRot',
    pointRadius: 6,
    pointHoverRadius: 8,
    borderColor: colour('--ink'),
    backgroundColor: colour('--surface'),
    borderWidth: 2,
    order: 1,
  };
}

function mixRates(rows, names) {
  return chart(
      'Restores alone and beside an offload', 90 + 40 * rows.length,
      'GB/s of each row\'s restores in both states; the table below has the figures', () => {
        const bars = kMixArms.map((arm) => mixBars(rows, arm));
        const tell = (item) => `${item.dataset.label}: ${rateText(item.parsed.x)} GB/s`;
        return {
          type: 'bar',
          data: {labels: names, datasets: [...bars, mixOffloaded(rows)]},
          options: {
            indexAxis: 'y',
            interaction: {mode: 'index', axis: 'y', intersect: false},
            scales: {x: rateAxis(bars), y: nameAxis(names)},
            plugins: {legend: {display: false}, tooltip: {callbacks: {label: tell}}},
          },
        };
      });
}

// A line of the chart for each row and state: what was alone stands above what was not.
function mixLatencies(rows, names) {
  const lines = rows.flatMap((row, i) => kMixArms.map((arm) => ({row, arm, name: names[i]})));
  const path = ({arm}, one) => `${arm.lat}.${one.field}`;
  const lineNames = lines.map(({arm, name}) => `${name}  ${arm.name}`);
  if (lines.every(({row, arm}) => numberAt(row.json, `${arm.lat}.p50`) === null)) {
    return list(reasonsFor(rows, 'mix.lat_ns.p50').map((why) => `latency not measured: ${why}`));
  }
  const dataset = (one) => ({
    key: `mix percentile ${one.name}`,
    label: one.name,
    showLine: false,
    pointStyle: one.style,
    pointRadius: 6,
    pointHoverRadius: 8,
    borderColor: colour(one.colourName),
    backgroundColor:
        lines.map(({arm}) => colour(arm === kMixArms[0] ? '--surface' : one.colourName)),
    pointBorderWidth: 2,
    data: lines.map((line) => numberAt(line.row.json, path(line, one))),
  });
  return chart(
      'A restored record\'s latency', 90 + 24 * lines.length,
      'p50, p99 and p99.9 of restores alone and beside an offload; the table has the figures',
      () => ({
        type: 'line',
        data: {labels: lineNames, datasets: kPercentiles.map(dataset)},
        options: {
          indexAxis: 'y',
          interaction: {mode: 'index', axis: 'y', intersect: false},
          scales: {
            x: timeAxis('latency, logarithmic'),
            y: nameAxis(lineNames, {lines: true}),
          },
          plugins: {
            legend: {display: false},
            tooltip:
                {callbacks: {label: (item) => `${item.dataset.label}: ${timeText(item.parsed.x)}`}}
          },
        },
      }));
}

function mixTable(rows, identity, footnotes) {
  const names = mixNames(rows, identity);
  const cell = (row, path, text) => {
    const value = numberAt(row.json, path);
    return value === null ? absentCell(reasonAt(row.json, path), footnotes) :
                            numberCell(text(value));
  };
  const ratio = (row) => {
    const [alone, beside] = kMixArms.map((arm) => numberAt(row.json, arm.rate));
    return alone > 0 && beside !== null ? numberCell(digits(beside / alone, 2)) :
                                          absentCell('one of both rates is missing', footnotes);
  };
  const rates = [
    ['asked for GB/s', 'mix.offload_gb_per_s_asked'],
    ['offloaded GB/s', kMixOffloaded.path],
    ...kMixArms.map((arm) => [`restore ${arm.name} GB/s`, arm.rate]),
  ];
  const times = kPercentiles.flatMap(
      (one) => kMixArms.map((arm) => [`${one.name} ${arm.name}`, `${arm.lat}.${one.field}`]));
  return table(
      [
        {title: 'row'},
        ...[...rates.map(([title]) => title), 'of alone', ...times.map(([title]) => title)].map(
            (title) => ({title, number: true}))
      ],
      rows.map((row, i) => ({
                 kind: kindOf(row),
                 cells: [
                   textCell(names[i]), ...rates.map(([, path]) => cell(row, path, rateText)),
                   ratio(row), ...times.map(([, path]) => cell(row, path, timeText))
                 ],
               })));
}

function mixLegend() {
  return legend([
    ...kMixArms.map(
        ({name, colourName}) => ({key: `mix ${name}`, text: name, colourName, kind: 'block'})),
    {
      key: `mix ${kMixOffloaded.name}`,
      text: kMixOffloaded.name,
      colourName: '--ink',
      kind: 'none',
      sign: '◇'
    },
    ...kPercentiles.map(
        ({name, colourName, sign}) =>
            ({key: `mix percentile ${name}`, text: name, colourName, kind: 'block', sign})),
  ]);
}

function mixSection(rows, identity) {
  const mixed = rows.filter(hasMix).sort((a, b) => a.ctx - b.ctx);
  const failures = mixFailures(rows);
  if (mixed.length === 0 && failures.length === 0) return null;
  const footnotes = new Footnotes();
  const {shown, rest} = chartRows(mixed.filter((row) => !row.failed));
  const names = mixNames(shown, identity);
  return section(
      'mix', 'Restores while an offload runs',
      note(
          'The row\'s snapshots were restored again while another one was offloaded at the ' +
          'rate that was asked for, by a queue and a thread of its own. Latencies alone are ' +
          'drawn hollow.'),
      ...(shown.length > 0 ?
              [
                mixLegend(),
                element('div', {class: 'grid'}, mixRates(shown, names), mixLatencies(shown, names)),
                rest
              ] :
              []),
      mixed.length > 0 ? mixTable(mixed, identity, footnotes) : null,
      failures.length > 0 ? list(failures.map(
                                (row) => `${rowName(row, identity.labels)}: not measured: ${
                                    textAt(row.json, 'mix_reason')}`)) :
                            null,
      footnotes.element());
}
