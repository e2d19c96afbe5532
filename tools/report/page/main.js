// Puts the page together, and says on its root element what tests ask: charts that are painted, and
// width.
'use strict';

function daysOf(rows) {
  const times = rows.map((row) => textAt(row.json, 'started_at')).filter((time) => time !== null);
  const days = unique(times.map((time) => time.slice(0, 10)).sort());
  if (days.length === 0) return '';
  return days.length === 1 ? `measured ${days[0]}, ` :
                             `measured ${days[0]} to ${days[days.length - 1]}, `;
}

function headline(data, rows) {
  const count = (test) => rows.all.filter(test).length;
  const failed = count((row) => row.failed);
  const noisy = count((row) => row.noisy && !row.failed);
  const publishable = count((row) => row.json.publishable === true);
  const commit = data.git_commit === '' ? '' : ` (${data.git_commit})`;
  const sizes = [
    countText(rows.all.length, 'row', 'rows'),
    countText(unique(rows.all.map((row) => row.store)).length, 'store', 'stores'),
    countText(unique(rows.all.map((row) => row.label)).length, 'label', 'labels'),
  ];
  return element(
      'header', {}, element('h1', {}, data.title),
      element(
          'p', {}, `${sizes.join(', ')}: `,
          failed > 0 ? badge('bad', `${failed} failed`) : badge('good', 'none failed'),
          noisy > 0 ? badge('warn', `${noisy} noisy`) : null,
          badge(publishable > 0 ? 'good' : 'warn', `${publishable} publishable`)),
      note(
          `${daysOf(rows.all)}page made ${data.made_at} by kvbed ${data.kvbed_version}${commit} ` +
          `with Chart.js ${Chart.version} (MIT)`));
}

function buildPage() {
  const data = JSON.parse(document.getElementById('data').textContent);
  const rows = readRows(data.rows);
  const identity = new Identity(rows.bench);
  const labels = unique(rows.all.map((row) => row.label));
  document.title = data.title;
  const parts = [
    headline(data, rows),
    leftOutSection(data.left_out),
    problemsSection(rows.all, labels),
    throughputSection(rows.bench, identity),
    ttftSection(rows.bench, identity),
    labelsSection(rows.bench, identity.labels),
    latencySection(rows.bench, identity),
    mixSection(rows.bench, identity),
    steadySection(rows.bench, identity),
    sweepSection(rows.sweep, unique(rows.sweep.map((row) => row.label))),
    tableSection(rows.bench, rows.all, labels),
    environmentSection(rows.all, labels),
  ];
  document.getElementById('report').append(...parts.filter((part) => part !== null));
}

function tellTests() {
  const root = document.documentElement;
  root.dataset.charts = String(drawnCharts.filter((drawn) => isPainted(drawn.canvas)).length);
  root.dataset.unpainted = String(drawnCharts.filter((drawn) => !isPainted(drawn.canvas)).length);
  root.dataset.width = String(window.innerWidth);
  root.dataset.overflow = String(Math.max(0, root.scrollWidth - root.clientWidth));
  root.dataset.scheme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  root.dataset.ink = getComputedStyle(document.body).color;
}

buildPage();
drawCharts();
redrawOnSchemeChange();
tellTests();
