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
  return table(
      columns, rows.map((row) => ({
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
}

function leftOutSection(leftOut) {
  if (leftOut.length === 0) return null;
  const made = section(
      'problems', 'Failed, noisy and unpublishable rows',
      note(
          `${countText(failed, 'row failed and is', 'rows failed and are')} in no chart; ` +
          `${countText(noisy, 'row is', 'rows are')} noisy (the rate varies by more than 10 %; ` +
          'hollow points). A row is publishable when it broke no rule of measurement.'),
      problemsTable(called, labels));
  made.classList.add('callout');
  if (failed > 0) made.classList.add('bad');
  return made;
}
