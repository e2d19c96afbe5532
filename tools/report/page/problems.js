// What a reader must know before any figure: rows that failed, are noisy, or can't be published,
// and what was left out.
'use strict';

function badgesOf(row) {
  const badges = [];
  if (row.failed) badges.push(badge('bad', 'failed'));
  if (at(row.json, 'verify.status') === 'differs') badges.push(badge('bad', 'bytes differ'));
  if (row.noisy) badges.push(badge('warn', 'noisy'));
  if (row.json.tool_bound === true) badges.push(badge('warn', 'tool-bound'));
  if (row.json.publishable === false && !row.failed) badges.push(badge('warn', 'not publishable'));
  return badges;
}

function kindOf(row) {
  if (row.failed) return 'bad';
  return badgesOf(row).length > 0 ? 'warn' : null;
}

function problemsTable(rows, labels) {
  const columns = [{title: 'row'}, {title: 'what'}, {title: 'why'}, {title: 'from'}];
  const made =
      table(columns, rows.map((row) => ({
                                kind: kindOf(row),
                                cells: [
                                  element('td', {class: 'text'}, rowName(row, labels)),
                                  element('td', {}, badgesOf(row)),
                                  element(
                                      'td', {class: 'text'},
                                      reasonsOf(row.json).join('; ') || 'the row does not say why'),
                                  element('td', {class: 'quiet'}, row.place),
                                ],
                              })));
  made.classList.add('stacked');
  return made;
}

function leftOutSection(leftOut) {
  if (leftOut.length === 0) return null;
  const made = section(
      'left-out', 'Left out', note('These lines of the input are no rows that this page can show.'),
      list(leftOut));
  made.classList.add('callout');
  return made;
}

function problemsSection(rows, labels) {
  const called = rows.filter((row) => kindOf(row) !== null);
  if (called.length === 0) return null;
  const order = (row) => row.failed ? 0 : row.noisy ? 1 : 2;
  called.sort((a, b) => order(a) - order(b) || a.index - b.index);
  const failed = called.filter((row) => row.failed).length;
  const noisy = called.filter((row) => row.noisy).length;
  const says = [
    `${countText(failed, 'row failed and is', 'rows failed and are')} in no chart;`,
    `${countText(noisy, 'row is', 'rows are')} noisy: the rate varies by more than 10 %.`,
    'What is noisy is drawn hollow. A row is publishable when it broke no rule of measurement.',
  ];
  const made = section(
      'problems', 'Failed, noisy and unpublishable rows',
      note(says.slice(failed > 0 ? 0 : 1).join(' ')), problemsTable(called, labels));
  made.classList.add('callout');
  if (failed > 0) made.classList.add('bad');
  return made;
}
