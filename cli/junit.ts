/** What became of one test. */
export interface Verdict {
  readonly file: string
  readonly name: string
  readonly seconds: number
  /** Empty: as expected. */
  readonly failures: readonly string[]
}

/** As CI systems read it: a suite a file, a case a test. */
export function junitReport(verdicts: readonly Verdict[]): string {
  const suites = Map.groupBy(verdicts, ({ file }) => file)
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts(verdicts)}>`,
    ...[...suites].flatMap(([file, cases]) => [
      `  <testsuite name="${escaped(file)}" ${counts(cases)}>`,
      ...cases.flatMap(caseLines),
      '  </testsuite>',
    ]),
    '</testsuites>',
    '',
  ].join('\n')
}

function counts(verdicts: readonly Verdict[]): string {
  const failures = verdicts.filter((verdict) => verdict.failures.length > 0).length
  const seconds = verdicts.reduce((sum, verdict) => sum + verdict.seconds, 0)
  return `tests="${verdicts.length}" failures="${failures}" time="${seconds.toFixed(3)}"`
}

function caseLines({ file, name, seconds, failures }: Verdict): string[] {
  const head = `    <testcase classname="${escaped(file)}" name="${escaped(name)}" time="${seconds.toFixed(3)}"`
  if (failures.length === 0) return [`${head}/>`]
  return [
    `${head}>`,
    `      <failure message="${escaped(failures[0] ?? '')}">${escaped(failures.join('\n'))}</failure>`,
    '    </testcase>',
  ]
}

const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    // No XML 1.0 can hold these.
    // oxlint-disable-next-line no-control-regex
    .replaceAll(/[\u0000-\u0008\u000B\u000C\u000E-\u001F]/g, '�')
