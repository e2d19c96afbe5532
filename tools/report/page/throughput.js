// GB/s of offload and restore per context, with spread, beside the ceilings that were measured at
// the same moment.
'use strict';

const kSides = [
  {name: 'restore', verb: 'read', title: 'Restore, verified'},
  {name: 'offload', verb: 'write', title: 'Offload'},
];
const kCeilings = [
  {prefix: '', name: 'fio', dash: [7, 4], kind: 'dashed'},
  {prefix: 'huge_', name: 'fio with huge pages', dash: [9, 3, 2, 3], kind: 'dashed'},
  {prefix: 'raw_', name: 'raw (no hashing, no records)', dash: [2, 4], kind: 'dotted'},
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

function rateChart(rows, side, identity) {
  const measured = rows.filter(
      (row) =>
          row.ctx !== null && numberAt(row.json, `${side.name}.gb_per_s`) !== null && !row.failed);
  if (measured.length === 0) {
    return element(
        'div', {}, element('h3', {}, side.title),
        list(reasonsFor(rows, `${side.name}.gb_per_s`).map((why) => `not measured: ${why}`)));
  }
  const durabilities =
      unique(measured.map((row) => row.json.cell.durability ?? '')).filter((text) => text !== '');
  const title = side.name === 'offload' && durabilities.length > 0 ?
      `${side.title}, ${durabilities.join(' or ')}` :
      side.title;
  return chart(
      title, 320, 'GB/s for each context and store; the table below has the figures',
      () => lineChart({
        datasets: [
          ...storeDatasets(measured, side, identity), ...ceilingDatasets(measured, side, identity)
        ],
        contexts: contextsOf(measured),
        yAxis: rateAxis(),
        tell: (dataset, point) => tellRate(side, dataset, point),
      }));
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

function ceilingLegend(rows, identity) {
  const lines =
      kSides.flatMap((side) => ceilingLines(rows.filter((row) => !row.failed), side, identity));
  return unique(lines.map((line) => line.name)).map((name) => {
    const {ceiling} = lines.find((line) => line.name === name);
    return {key: `ceiling ${name}`, text: name, colourName: '--ceiling', kind: ceiling.kind};
  });
}

function missingCeilings(rows) {
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
