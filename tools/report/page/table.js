// Every row of a benchmark with its main figures, and all of its fields on demand.
'use strict';

const kTableColumns = [
  ['offload GB/s', 'offload.gb_per_s', 3],
  ['spread', 'offload.cv', '%'],
  ['of fio', 'ceiling.write_efficiency', 3],
  ['of raw', 'ceiling.raw_write_efficiency', 3],
  ['CPU s/GB', 'offload.cpu_s_per_gb', 3],
  ['hash s/GB', 'offload.hash_s_per_gb', 3],
  ['first write GB/s', 'offload_first_write.gb_per_s', 3],
  ['of fio', 'offload_first_write.efficiency', 3],
  ['restore GB/s', 'restore.gb_per_s', 3],
  ['spread', 'restore.cv', '%'],
  ['of fio', 'ceiling.read_efficiency', 3],
  ['of raw', 'ceiling.raw_read_efficiency', 3],
  ['CPU s/GB', 'restore.cpu_s_per_gb', 3],
  ['hash s/GB', 'restore.hash_s_per_gb', 3],
  ['without a disk: write GB/s', 'ceiling.null_write_gb_per_s', 3],
  ['read GB/s', 'ceiling.null_read_gb_per_s', 3],
  ['device bytes', 'bytes.device_ratio', 3],
  ['write amplification', 'bytes.write_amplification', 3],
];

function figureCell(row, [, path, form], footnotes) {
  const value = numberAt(row.json, path);
  if (value === null) return absentCell(reasonAt(row.json, path), footnotes);
  return numberCell(form === '%' ? percentText(value) : digits(value, form));
}

function plainCell(row, path, footnotes) {
  const value = at(row.json, path);
  if (value === null || value === undefined) return absentCell(reasonAt(row.json, path), footnotes);
  return textCell(typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value));
}

function rowCells(row, labels, footnotes) {
  const marks = badgesOf(row);
  const size = blockBytes(row.json);
  return [
    textCell(row.shape),
    row.ctx === null ? absentCell(reasonAt(row.json, 'cell.ctx_tokens'), footnotes) :
                       numberCell(tokensText(row.ctx)),
    textCell([row.store, row.variant].filter((part) => part !== '').join(', ')),
    ...(labels.length > 1 || labels[0] !== '' ? [textCell(labelName(row.label))] : []),
    element('td', {}, marks.length > 0 ? marks : [badge('good', 'ok')]),
    size === null ? absentCell(reasonAt(row.json, 'cell.record_bytes'), footnotes) :
                    numberCell(sizeText(size)),
    plainCell(row, 'cell.durability', footnotes),
    plainCell(row, 'cell.direct', footnotes),
    ...kTableColumns.map((column) => figureCell(row, column, footnotes)),
    plainCell(row, 'verify.status', footnotes),
    plainCell(row, 'bytes.proof', footnotes),
  ];
}

// The text is made when it is first looked at: a page may hold thousands of rows.
function fieldsOf(row, labels) {
  const made =
      element('details', {}, element('summary', {}, `${rowName(row, labels)} (${row.place})`));
  made.addEventListener('toggle', () => {
    if (made.open && made.childElementCount === 1)
      made.append(element('pre', {}, JSON.stringify(row.json, null, 2)));
  });
  return made;
}

function tableSection(rows, all, labels) {
  const footnotes = new Footnotes();
  const number = ([title]) => ({title, number: true});
  const columns = [
    {title: 'shape'}, {title: 'ctx', number: true}, {title: 'store'},
    ...(labels.length > 1 || labels[0] !== '' ? [{title: 'label'}] : []), {title: 'status'},
    {title: 'record', number: true}, {title: 'until'}, {title: 'direct'},
    ...kTableColumns.map(number), {title: 'verify'}, {title: 'proof'}
  ];
  const body = rows.map((row) => ({kind: kindOf(row), cells: rowCells(row, labels, footnotes)}));
  return section(
      'table', 'All rows',
      rows.length > 0 ?
          [
            note(
                'Rates are of stored bytes; "of fio" and "of raw" are medians of the ratios ' +
                'of pairs; spread is the standard deviation of the repetitions.'),
            table(columns, body), footnotes.element()
          ] :
          null,
      element(
          'details', {}, element('summary', {}, 'All fields of every row'),
          all.map((row) => fieldsOf(row, labels))));
}
