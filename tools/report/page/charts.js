// Charts as all sections want them: colours of the page's scheme, contexts as an axis, spread as
// whiskers, a legend of text.
'use strict';

// A canvas with a line for each row can't be of any height.
const kChartRowsMax = 120;

const drawnCharts = [];  // {canvas, configure, chart}
const hiddenKeys = new Set();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// `configure` makes Chart.js's configuration when the canvas is in the page, and again when the
// scheme changes. `says` is for those who don't see it.
function chart(title, height, says, configure) {
  const canvas = element('canvas', {role: 'img', 'aria-label': `${title}: ${says}`});
  const box = element('div', {class: 'chart'}, canvas);
  box.style.height = `${height}px`;
  drawnCharts.push({canvas, configure, chart: null});
  return element('div', {}, element('h3', {}, title), box);
}

function drawCharts() {
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.color = colour('--quiet');
  Chart.defaults.borderColor = colour('--line');
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  for (const drawn of drawnCharts) {
    if (drawn.chart !== null) drawn.chart.destroy();
    const config = drawn.configure();
    for (const dataset of config.data.datasets) dataset.hidden = hiddenKeys.has(dataset.key);
    config.plugins = [...(config.plugins ?? []), whiskers];
    drawn.chart = new Chart(drawn.canvas, config);
  }
}

// The rows that a chart of lines for rows takes, and what to say of the others.
function chartRows(rows) {
  const left = rows.length - kChartRowsMax;
  return {
    shown: rows.slice(0, kChartRowsMax),
    rest: left > 0 ? note(`${countText(left, 'more is', 'more are')} in the table only.`) : null
  };
}

function redrawOnSchemeChange() {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
}

// A line from least to most through each point of a dataset with `ranges`.
const whiskers = {
  id: 'whiskers',
  afterDatasetsDraw(chart) {
    const lying = chart.options.indexAxis === 'y';
    chart.data.datasets.forEach((dataset, index) => {
      if (dataset.ranges === undefined || !chart.isDatasetVisible(index)) return;
      const scale = lying ? chart.scales.x : chart.scales.y;
      chart.getDatasetMeta(index).data.forEach((point, i) => {
        if (dataset.ranges[i])
          drawWhisker(
              chart.ctx, point, dataset.ranges[i].map((v) => scale.getPixelForValue(v)), lying,
              dataset.whiskerColor ?? dataset.borderColor);
      });
    });
  },
};

function drawWhisker(ctx, point, [from, to], lying, stroke) {
  const line = (x1, y1, x2, y2) => {
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
  };
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.5;
  for (const end of [from, to]) {
    if (lying)
      line(end, point.y - 4, end, point.y + 4);
    else
      line(point.x - 4, end, point.x + 4, end);
  }
  if (lying)
    line(from, point.y, to, point.y);
  else
    line(point.x, from, point.x, to);
  ctx.restore();
}

// Upright lines at values of x, each with a short text.
function marksPlugin(marks) {
  return {
    id: 'marks',
    afterDatasetsDraw(chart) {
      const {ctx, chartArea: area, scales} = chart;
      ctx.save();
      ctx.font = `bold 12px ${Chart.defaults.font.family}`;
      marks.forEach((mark, i) => {
        const x = scales.x.getPixelForValue(mark.x);
        const right = x < (area.left + area.right) / 2;
        ctx.strokeStyle = ctx.fillStyle = colour(mark.colourName);
        ctx.setLineDash([4, 3]);
        ctx.lineWidth = 1.5;
        ctx.beginPath();
        ctx.moveTo(x, area.top);
        ctx.lineTo(x, area.bottom);
        ctx.stroke();
        ctx.textAlign = right ? 'left' : 'right';
        ctx.fillText(mark.text, x + (right ? 5 : -5), area.top + 13 + 15 * i);
      });
      ctx.restore();
    },
  };
}

function grid() { return {color: colour('--line')}; }

// A logarithmic axis whose ticks are the contexts that were measured.
function contextAxis(contexts) {
  return {
    type: 'logarithmic',
    min: contexts[0] / 1.25,
    max: contexts[contexts.length - 1] * 1.25,
    grid: grid(),
    title: {display: true, text: 'context (tokens)'},
    afterBuildTicks: (axis) => {
      axis.ticks = contexts.map((value) => ({value}));
    },
    ticks: {autoSkip: true, maxRotation: 45, callback: (value) => tokensText(value)},
  };
}

// The names on an axis leave half of a phone's width to the bars. Both ends tell rows apart.
function cutText(text) {
  const most = window.innerWidth < 560 ? 22 : 44;
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

// An axis whose places are rows.
function nameAxis(names, {stacked = false, lines = false} = {}) {
  return {
    type: 'category',
    offset: true,
    stacked,
    grid: lines ? grid() : {display: false},
    ticks: {autoSkip: false, callback: (value) => cutText(names[value])},
  };
}

// Holds the whiskers of the datasets too.
function rateAxis(datasets) {
  const ends =
      datasets.flatMap((dataset) => (dataset.ranges ?? []).map((range) => range?.[1] ?? 0));
  return {
    type: 'linear',
    beginAtZero: true,
    suggestedMax: Math.max(0, ...ends),
    grid: grid(),
    title: {display: true, text: 'GB/s'}
  };
}

function timeAxis(text) {
  const isRound = (value) => {
    const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
    return [1, 2, 5].includes(+(value / power).toPrecision(6));
  };
  return {
    type: 'logarithmic',
    grid: grid(),
    title: {display: true, text},
    afterBuildTicks: (axis) => {
      const round = axis.ticks.filter((tick) => isRound(tick.value));
      if (round.length > 1) axis.ticks = round;
    },
    ticks: {autoSkip: true, maxRotation: 0, callback: (value) => shortTimeText(value)},
  };
}

// A line over contexts. `style` has key, label, colourName, dash, pointStyle.
function lineDataset(points, style) {
  const stroke = colour(style.colourName);
  return {
    key: style.key,
    label: style.label,
    data: points.map(({x, y}) => ({x, y})),
    ranges: points.map((point) => point.range),
    points,
    borderColor: stroke,
    borderWidth: style.width ?? 2,
    borderDash: style.dash ?? [],
    pointStyle: style.pointStyle ?? 'circle',
    // A noisy point is hollow.
    pointBackgroundColor: points.map((point) => (point.noisy ? colour('--surface') : stroke)),
    pointBorderColor: stroke,
    pointBorderWidth: 2,
    pointRadius: style.pointRadius ?? 5,
    pointHoverRadius: (style.pointRadius ?? 5) + 2,
    tension: 0,
    fill: false,
  };
}

// A chart of lines over contexts. `tell` makes the lines of text for a point.
function lineChart({datasets, contexts, yAxis, tell, marks = []}) {
  return {
    type: 'line',
    data: {datasets},
    plugins: marks.length > 0 ? [marksPlugin(marks)] : [],
    options: {
      interaction: {mode: 'nearest', intersect: false},
      scales: {x: contextAxis(contexts), y: yAxis},
      plugins: {
        legend: {display: false},
        tooltip: {
          callbacks: {
            title: (items) => (items.length > 0 ? `${tokensText(items[0].parsed.x)} tokens` : ''),
            label: (item) => tell(item.dataset, item.dataset.points[item.dataIndex]),
          },
        },
      },
    },
  };
}

// Entries are {key, text, colourName, kind: '', 'dashed', 'dotted' or 'block', sign}. A click hides
// and shows what has the key.
function legend(entries) {
  return element('ul', {class: 'legend'}, entries.map((entry) => {
    const swatch = element('span', {class: `swatch ${entry.kind ?? ''}`});
    swatch.style.borderTopColor = `var(${entry.colourName})`;
    const button = element(
        'button', {type: 'button', 'aria-pressed': 'true'}, swatch,
        `${entry.sign ?? ''} ${entry.text}`.trim());
    button.addEventListener('click', () => toggleKey(entry.key, button));
    return element('li', {}, button);
  }));
}

function toggleKey(key, button) {
  const hide = !hiddenKeys.has(key);
  if (hide)
    hiddenKeys.add(key);
  else
    hiddenKeys.delete(key);
  button.setAttribute('aria-pressed', String(!hide));
  for (const {chart} of drawnCharts) {
    chart.data.datasets.forEach((dataset, index) => {
      if (dataset.key === key) chart.setDatasetVisibility(index, !hide);
    });
    chart.update();
  }
}

// Has anything been painted? Looked at by tests through the root element's data-charts.
function isPainted(canvas) {
  if (canvas.width === 0 || canvas.height === 0) return false;
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  for (let i = 3; i < pixels.length; i += 4) {
    if (pixels[i] !== 0) return true;
  }
  return false;
}
