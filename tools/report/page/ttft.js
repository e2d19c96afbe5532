// Time to first token: restore against recompute, a cache that stayed in memory and a copy of it;
// the context from which restoring wins; and the parts of a restore.
'use strict';

const kArms = [
  {path: 'ttft.recompute.total_ns', name: 'recompute', dash: [7, 4], kind: 'dashed'},
  {path: 'ttft.ram_copy.total_ns', name: 'copy in memory', dash: [9, 3, 2, 3], kind: 'dashed'},
  {path: 'ttft.in_memory.total_ns', name: 'in memory', dash: [2, 4], kind: 'dotted'},
];
// They add up to the total: verification during reads is within the reads.
const kParts = [
  {name: 'lookup', of: (ttft) => ttft.lookup_ns},
  {name: 'read', of: (ttft) => ttft.read_ns},
  {name: 'verify after the reads', of: (ttft) => Math.max(0, ttft.verify_ns - ttft.overlap_ns)},
  {name: 'first decode', of: (ttft) => ttft.first_decode_ns},
];
const kRestoreTotal = 'ttft.restore.total_ns';

function hasTtft(row) {
  return !row.failed && row.ctx !== null && [
    kRestoreTotal, ...kArms.map((arm) => arm.path)
  ].some((path) => numberAt(row.json, path) !== null);
}

// "given: SOURCE" for a prefill rate that was not measured here, else what prefilled.
function recomputeSource(row) {
  const given = at(row.json, 'ttft.recompute.given');
  if (typeof given === 'string') return `given: ${given}`;
  if (given !== null && typeof given === 'object') return `given: ${valueText('given', given)}`;
  return given === true ? 'given' : textAt(row.json, 'ttft.recompute.device');
}

function armName(arm, rows, identity) {
  const label = identity.labels.length > 1 ? `, ${labelName(rows[0].label)}` : '';
  const sources = unique(rows.map(recomputeSource)).filter((source) => source !== null);
  if (arm.name !== 'recompute' || sources.length === 0) return arm.name + label;
  return `recompute (${sources.join(' and ')})${label}`;
}

// Every arm's line, for each label: stores don't matter to them.
function armLines(rows, identity) {
  const lines = [];
  for (const group of groupRows(rows, (row) => row.label).values()) {
    for (const arm of kArms) {
      const points = pointsOf(group, arm.path);
      points.forEach((point) => {
        point.noisy = false;
      });
      if (points.length > 0)
        lines.push({arm, points, name: armName(arm, group, identity), label: group[0].label});
    }
  }
  return lines;
}

// Where the lines of two medians cross, as straight lines between neighbouring contexts on
// logarithmic scales.
function crossingOf(group) {
  const restore = pointsOf(group, kRestoreTotal);
  const recompute =
      new Map(pointsOf(group, 'ttft.recompute.total_ns').map((point) => [point.x, point.y]));
  const both = restore.filter((point) => recompute.has(point.x))
                   .map(({x, y}) => ({x, gap: Math.log(y / recompute.get(x))}));
  // The last one: after it restoring stays ahead.
  for (let i = both.length - 1; i > 0 && both[i].gap <= 0; --i) {
    const [a, b] = [both[i - 1], both[i]];
    if (a.gap > 0) {
      const share = a.gap / (a.gap - b.gap);
      return {
        tokens: Math.exp(Math.log(a.x) + share * Math.log(b.x / a.x)),
        from: a.x,
        to: b.x,
        both
      };
    }
  }
  return {tokens: null, both};
}

function ownBreakEven(group) {
  const stated = group.map((row) => numberAt(row.json, 'break_even.ctx_tokens'));
  const known = stated.filter((tokens) => tokens !== null);
  if (known.length === 0) return '';
  return `; by the rows' own break_even from ${digits(median(known), 0)} tokens`;
}

function lackingSentence(group) {
  const lacksRestore = pointsOf(group, kRestoreTotal).length === 0;
  const path = lacksRestore ? kRestoreTotal : 'ttft.recompute.total_ns';
  const what = lacksRestore ? 'restore' : 'recompute';
  return `no crossing can be given, ${what} was not measured: ${
      reasonsFor(group, path).join('; ')}`;
}

function neverCrossingSentence(both) {
  const wins = both.every((one) => one.gap <= 0);
  const loses = both.every((one) => one.gap > 0);
  const what = wins ? 'restoring beats recomputing' :
      loses         ? 'recomputing beats restoring' :
                      'recomputing beats restoring at the longest context, and not everywhere,';
  const [least, most] = [tokensText(both[0].x), tokensText(both[both.length - 1].x)];
  return both.length === 1 ? `${what} at ${least}, the one measured context` :
                             `${what} at the measured contexts from ${least} to ${most}`;
}

function crossingSentence(group, identity) {
  const name = `${group[0].shape}, ${seriesName(group[0], identity.labels)}`;
  const {tokens, from, to, both} = crossingOf(group);
  const between = `between the measured ${tokensText(from ?? 0)} and ${tokensText(to ?? 0)}`;
  const says = tokens !== null ?
      `restoring beats recomputing from about ${digits(tokens, 0)} tokens (${between})` :
      both.length === 0 ? lackingSentence(group) :
                          neverCrossingSentence(both);
  return `${name}: ${says}${ownBreakEven(group)}.`;
}

function crossingMarks(groups, identity) {
  const marks = [];
  for (const group of groups) {
    const {tokens} = crossingOf(group);
    if (tokens !== null)
      marks.push({
        x: tokens,
        text: `${digits(tokens, 0)} tokens`,
        colourName: identity.colourName(group[0])
      });
  }
  return marks;
}

function ttftChart(rows, identity) {
  const groups = [...groupRows(rows, seriesKey).values()];
  return chart(
      'Time to first token', 340,
      'restore, recompute and in memory for each context; the table below has the figures',
      () => lineChart({
        datasets: [
          ...groups.map((group) => {
            const name = seriesName(group[0], identity.labels);
            return lineDataset(pointsOf(group, kRestoreTotal), {
              key: name,
              label: `restore, ${name}`,
              colourName: identity.colourName(group[0]),
              dash: identity.dash(group[0]),
              pointStyle: identity.pointStyle(group[0].label)
            });
          }),
          ...armLines(rows, identity).map(({arm, points, name, label}) => lineDataset(points, {
                                            key: `arm ${name}`,
                                            label: name,
                                            colourName: '--recompute',
                                            dash: arm.dash,
                                            pointStyle: identity.pointStyle(label),
                                            pointRadius: 3,
                                            width: 1.5
                                          })),
        ],
        contexts: contextsOf(rows),
        yAxis: timeAxis('time, logarithmic'),
        tell: (dataset, point) => `${dataset.label}: ${timeText(point.y)}`,
        marks: crossingMarks(groups, identity),
      }));
}

function partsOf(row) {
  const ttft = at(row.json, 'ttft.restore');
  const values =
      kParts.map((part) => (ttft === null || typeof ttft !== 'object' ? NaN : part.of(ttft)));
  return values.every((value) => Number.isFinite(value)) ? values : null;
}

function partsChart(rows, identity) {
  const {shown, rest} =
      chartRows(rows.filter((row) => partsOf(row) !== null).sort((a, b) => a.ctx - b.ctx));
  if (shown.length === 0) return note('The parts of a restore were not measured.');
  const names = shown.map((row) => `${tokensText(row.ctx)}  ${seriesName(row, identity.labels)}`);
  const drawn = chart(
      'Parts of a restore\'s time to first token', 90 + 26 * shown.length,
      'lookup, read, verify, first decode, stacked',
      () => ({
        type: 'bar',
        data: {
          labels: names,
          datasets: kParts.map((part, i) => ({
                                 key: `part ${part.name}`,
                                 label: part.name,
                                 backgroundColor: colour(`--part-${i}`),
                                 data: shown.map((row) => partsOf(row)[i] / 1e6),
                                 maxBarThickness: 20
                               })),
        },
        options: {
          indexAxis: 'y',
          interaction: {mode: 'index', axis: 'y', intersect: false},
          scales: {
            x: {stacked: true, grid: grid(), title: {display: true, text: 'ms'}},
            y: nameAxis(names, {stacked: true}),
          },
          plugins: {
            legend: {display: false},
            tooltip: {
              callbacks:
                  {label: (item) => `${item.dataset.label}: ${timeText(item.parsed.x * 1e6)}`}
            }
          },
        },
      }));
  return element('div', {}, drawn, rest);
}

function ttftTable(rows, identity, footnotes) {
  const columns = [
    ['ctx', null],
    ['restore', kRestoreTotal],
    ['lookup', 'ttft.restore.lookup_ns'],
    ['read', 'ttft.restore.read_ns'],
    ['verify', 'ttft.restore.verify_ns'],
    ['of it while reading', 'ttft.restore.overlap_ns'],
    ['first decode', 'ttft.restore.first_decode_ns'],
    ['recompute', 'ttft.recompute.total_ns'],
    ['in memory', 'ttft.in_memory.total_ns'],
    ['copy in memory', 'ttft.ram_copy.total_ns'],
  ];
  const time = (row, path) => {
    const ns = numberAt(row.json, path);
    return ns === null ? absentCell(reasonAt(row.json, path), footnotes) : numberCell(timeText(ns));
  };
  return table(
      [{title: 'store'}, ...columns.map(([title]) => ({title, number: true}))],
      rows.map((row) => ({
                 kind: kindOf(row),
                 cells: [
                   textCell(seriesName(row, identity.labels)), numberCell(tokensText(row.ctx)),
                   ...columns.slice(1).map(([, path]) => time(row, path))
                 ],
               })));
}

function ttftOfShape(shape, rows, identity, footnotes) {
  const arms = armLines(rows, identity);
  const entries = [
    ...storeLegend(rows, identity).map((entry) => ({...entry, text: `restore, ${entry.text}`})),
    ...arms.map(
        ({arm, name}) =>
            ({key: `arm ${name}`, text: name, colourName: '--recompute', kind: arm.kind})),
    ...kParts.map(
        (part, i) => (
            {key: `part ${part.name}`, text: part.name, colourName: `--part-${i}`, kind: 'block'})),
  ];
  return [
    element('h3', {}, shape), legend(entries),
    element('div', {class: 'grid'}, ttftChart(rows, identity), partsChart(rows, identity)),
    ttftTable(rows, identity, footnotes)
  ];
}

function ttftSection(rows, identity) {
  if (rows.length === 0) return null;
  const measured = rows.filter(hasTtft);
  if (measured.length === 0) {
    return section(
        'ttft', 'Time to first token: restore or recompute',
        list(reasonsFor(rows, kRestoreTotal).map((why) => `not measured: ${why}`)));
  }
  const footnotes = new Footnotes();
  const groups = [...groupRows(measured, seriesKey).values()];
  const made = section(
      'ttft', 'Time to first token: restore or recompute',
      list(groups.map((group) => crossingSentence(group, identity))),
      note(
          'A restore looks the snapshot up, reads, verifies and decodes one token; what is ' +
          'verified while reads are in flight takes no time of its own. The upright line ' +
          'marks the context from which restoring beats recomputing, interpolated between ' +
          'measured contexts.'));
  for (const [shape, group] of groupRows(measured, (row) => row.shape))
    made.append(...ttftOfShape(shape, group, identity, footnotes));
  const notes = footnotes.element();
  if (notes !== null) made.append(notes);
  return made;
}
