// Percentiles of the latency of single records, a line of the chart for each row.
'use strict';

const kPercentiles = [
  {name: 'p50', field: 'p50', style: 'circle', sign: '●', colourName: '--series-0'},
  {name: 'p99', field: 'p99', style: 'triangle', sign: '▲', colourName: '--series-1'},
  {name: 'p99.9', field: 'p99_9', style: 'rectRot', sign: '◆', colourName: '--series-3'},
];

function latencyPath(side, percentile) { return `${side.name}.lat_ns.${percentile.field}`; }

function latencyChart(rows, side, identity) {
  const {shown, rest} = chartRows(rows.filter(
      (row) => !row.failed &&
          kPercentiles.some((one) => numberAt(row.json, latencyPath(side, one)) !== null)));
  const title = `${side.title}: a record's latency`;
  if (shown.length === 0) {
    return element(
        'div', {}, element('h3', {}, title),
        list(reasonsFor(rows, latencyPath(side, kPercentiles[0]))
                 .map((why) => `not measured: ${why}`)));
  }
  const shapes = unique(rows.map((row) => row.shape)).length;
  const names = shown.map(
      (row) => (row.ctx === null ? '' : `${tokensText(row.ctx)}  `) +
          seriesName(row, identity.labels) + (shapes > 1 ? `, ${row.shape}` : ''));
  const dataset = (one) => ({
    key: `percentile ${one.name}`,
    label: one.name,
    showLine: false,
    pointStyle: one.style,
    pointRadius: 6,
    pointHoverRadius: 8,
    borderColor: colour(one.colourName),
    backgroundColor: colour(one.colourName),
    data: shown.map((row) => numberAt(row.json, latencyPath(side, one))),
  });
  const drawn = chart(
      title, 90 + 24 * shown.length,
      'p50, p99 and p99.9 for each row; the table below has the figures',
      () => ({
        type: 'line',
        data: {labels: names, datasets: kPercentiles.map(dataset)},
        options: {
          indexAxis: 'y',
          interaction: {mode: 'index', axis: 'y', intersect: false},
          scales: {
            x: timeAxis('latency, logarithmic'),
            y: nameAxis(names, {lines: true}),
          },
          plugins: {
            legend: {display: false},
            tooltip:
                {callbacks: {label: (item) => `${item.dataset.label}: ${timeText(item.parsed.x)}`}}
          },
        },
      }));
  return element('div', {}, drawn, rest);
}

function missingPercentiles(rows) {
  const texts = [];
  for (const side of kSides) {
    for (const one of kPercentiles) {
      const lacking = rows.filter(
          (row) => !row.failed && at(row.json, `${side.name}.lat_ns`) &&
              numberAt(row.json, latencyPath(side, one)) === null);
      for (const why of reasonsFor(lacking, latencyPath(side, one))) {
        const count =
            lacking.filter((row) => reasonAt(row.json, latencyPath(side, one)) === why).length;
        texts.push(
            `${side.name} ${one.name} of ${countText(count, 'row', 'rows')} not measured: ${why}`);
      }
    }
  }
  return texts.length > 0 ? list(texts) : null;
}

function latencySection(rows, identity) {
  if (rows.length === 0) return null;
  return section(
      'latency', 'Latency percentiles',
      note(
          'From the submission of a record to its completion, over all timed repetitions. A ' +
          'percentile is given only where enough records were timed.'),
      legend(kPercentiles.map((one) => ({
                                key: `percentile ${one.name}`,
                                text: one.name,
                                colourName: one.colourName,
                                kind: 'block',
                                sign: one.sign
                              }))),
      element('div', {class: 'grid'}, kSides.map((side) => latencyChart(rows, side, identity))),
      ...[missingPercentiles(rows)].filter((made) => made !== null));
}
