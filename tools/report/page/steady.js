// Rounds of steady measurements: GB/s of each, and how far the last ones are from staying the same.
'use strict';

const kSteadyChartsMax = 12;
// As bench judges them (SNIA's PTS): the last five rounds, as shares of their mean.
const kSteadyWindow = 5;
const kDataExcursion = 0.20;
const kSlopeExcursion = 0.10;
const kIntervals = [
  {name: 'restore', path: 'interval_restore_gb_per_s', colourName: '--label-0'},
  {name: 'offload', path: 'interval_gb_per_s', colourName: '--label-1'},
];

function intervalsOf(row, side) {
  const rates = at(row.json, side.path);
  if (!Array.isArray(rates) || !rates.every((rate) => Number.isFinite(rate))) return [];
  return rates;
}

function isSteadyRow(row) {
  return at(row.json, 'cell.profile') === 'steady' ||
      kIntervals.some((side) => intervalsOf(row, side).length > 0);
}

// Of the last five; data and slope as shares of their mean. Null for fewer.
function excursionOf(rates) {
  if (rates.length < kSteadyWindow) return null;
  const last = rates.slice(-kSteadyWindow);
  const mean = last.reduce((sum, rate) => sum + rate, 0) / kSteadyWindow;
  if (!(mean > 0)) return null;
  const half = (kSteadyWindow - 1) / 2;
  const slope = last.reduce((sum, rate, i) => sum + (i - half) * (rate - mean), 0) /
      last.reduce((sum, rate, i) => sum + (i - half) ** 2, 0);
  const [least, most] = [Math.min(...last), Math.max(...last)];
  return {
    mean,
    middle: (least + most) / 2,
    data: (most - least) / mean,
    slope: Math.abs(slope) * (kSteadyWindow - 1) / mean
  };
}

function steadyVerdict(row) {
  const rounds = numberAt(row.json, 'steady.rounds');
  const state = textAt(row.json, 'steady.state') ?? 'not said';
  const says = {
    reached: 'steady state reached',
    not_reached: 'steady state not reached',
    not_assessed: 'not assessed',
  };
  return `${says[state] ?? state}${
      rounds === null ? '' : ` in ${countText(rounds, 'round', 'rounds')}`}`;
}

function intervalDataset(row, side) {
  const rates = intervalsOf(row, side);
  const stroke = colour(side.colourName);
  const isLast = (i) => rates.length >= kSteadyWindow && i >= rates.length - kSteadyWindow;
  return {
    key: `interval ${side.name}`,
    label: side.name,
    data: rates.map((y, i) => ({x: i + 1, y})),
    borderColor: stroke,
    borderWidth: 2,
    pointBackgroundColor: rates.map((_, i) => (isLast(i) ? stroke : colour('--surface'))),
    pointBorderColor: stroke,
    pointBorderWidth: 2,
    pointRadius: 4,
    pointHoverRadius: 6,
    tension: 0,
    fill: false,
  };
}

// The mean of the last five, and 20 % of it around their middle, which a steady state stays in.
function windowDataset(row, side) {
  const rates = intervalsOf(row, side);
  const excursion = excursionOf(rates);
  if (excursion === null) return null;
  const x = [rates.length - kSteadyWindow + 1, rates.length];
  return {
    key: `interval ${side.name}`,
    label: `mean of the last ${kSteadyWindow}`,
    data: x.map((round) => ({x: round, y: excursion.mean})),
    ranges: x.map(
        () => [-0.5, 0.5].map((part) => excursion.middle + part * kDataExcursion * excursion.mean)),
    borderColor: colour('--ink'),
    borderWidth: 1.5,
    borderDash: [4, 3],
    pointRadius: 0,
    fill: false,
  };
}

function roundAxis(rounds) {
  return {
    type: 'linear',
    min: 0.5,
    max: rounds + 0.5,
    grid: grid(),
    title: {display: true, text: 'round'},
    afterBuildTicks: (axis) => {
      axis.ticks = Array.from({length: rounds}, (_, i) => ({value: i + 1}));
    },
    ticks: {autoSkip: true, maxRotation: 0},
  };
}

function steadyChart(row, identity) {
  const rounds = Math.max(...kIntervals.map((side) => intervalsOf(row, side).length));
  return chart(
      `${rowName(row, identity.labels)}: ${steadyVerdict(row)}`, 280,
      'GB/s of offload and restore in each round; the table below has the figures', () => {
        const datasets =
            kIntervals.flatMap((side) => [intervalDataset(row, side), windowDataset(row, side)])
                .filter((dataset) => dataset !== null && dataset.data.length > 0);
        return {
          type: 'line',
          data: {datasets},
          options: {
            interaction: {mode: 'nearest', intersect: false},
            scales: {x: roundAxis(rounds), y: rateAxis(datasets)},
            plugins: {
              legend: {display: false},
              tooltip: {
                callbacks: {
                  title: (items) => (items.length > 0 ? `round ${items[0].parsed.x}` : ''),
                  label: (item) => `${item.dataset.label}: ${rateText(item.parsed.y)} GB/s`,
                },
              },
            },
          },
        };
      });
}

function excursionCells(row, side, footnotes) {
  const excursion = excursionOf(intervalsOf(row, side));
  if (excursion === null) {
    const why = at(row.json, side.path) === null ? reasonAt(row.json, side.path) :
                                                   `fewer than ${kSteadyWindow} rounds`;
    return [0, 1, 2].map(() => absentCell(why, footnotes));
  }
  const share = (value, most) => element(
      'td', {class: 'number'}, `${digits(100 * value, 1)} %`,
      value > most ? badge('warn', `above ${percentText(most)}`) : null);
  return [
    numberCell(rateText(excursion.mean)), share(excursion.data, kDataExcursion),
    share(excursion.slope, kSlopeExcursion)
  ];
}

function steadyTable(rows, identity, footnotes) {
  const sideColumns = kIntervals.flatMap(
      ({name}) => [`${name} GB/s, mean of the last ${kSteadyWindow}`, 'least to most', 'slope']);
  const number = (row, path) => {
    const value = numberAt(row.json, path);
    return value === null ? absentCell(reasonAt(row.json, path), footnotes) :
                            numberCell(digits(value, 0));
  };
  return table(
      [
        {title: 'row'}, {title: 'verdict'},
        ...['rounds', 'at most', ...sideColumns].map((title) => ({title, number: true}))
      ],
      rows.map((row) => ({
                 kind: kindOf(row),
                 cells: [
                   textCell(rowName(row, identity.labels)), textCell(steadyVerdict(row)),
                   number(row, 'steady.rounds'), number(row, 'steady.rounds_max'),
                   ...kIntervals.flatMap((side) => excursionCells(row, side, footnotes))
                 ],
               })));
}

function steadySection(rows, identity) {
  const steady = rows.filter(isSteadyRow);
  if (steady.length === 0) return null;
  const footnotes = new Footnotes();
  const drawable = steady.filter(
      (row) => !row.failed && kIntervals.some((side) => intervalsOf(row, side).length > 0));
  const left = drawable.length - kSteadyChartsMax;
  return section(
      'steady', 'Rounds until a steady state',
      note(
          `A steady state is reached when the last ${kSteadyWindow} rounds (drawn filled) stay ` +
          `within ${percentText(kDataExcursion)} of their mean from the least to the most, and ` +
          `the line through them rises or falls by no more than ${percentText(kSlopeExcursion)}; ` +
          'whiskers show that room. A row\'s figures are those of the last rounds.'),
      ...(drawable.length > 0 ?
              [
                legend(kIntervals.map(
                    ({name, colourName}) => ({key: `interval ${name}`, text: name, colourName}))),
                element(
                    'div', {class: 'grid'},
                    drawable.slice(0, kSteadyChartsMax).map((row) => steadyChart(row, identity))),
                left > 0 ? note(`${countText(left, 'more is', 'more are')} in the table only.`) :
                           null
              ] :
              []),
      steadyTable(steady, identity, footnotes), footnotes.element());
}
