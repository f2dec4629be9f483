/** The result of one test. */
export interface TestResult {
  readonly file: string
  readonly name: string
  readonly seconds: number
  /** Empty if the test passed. */
  readonly failures: readonly string[]
}

/** JUnit XML for CI systems: one suite per file, one case per test. */
export function junitReport(results: readonly TestResult[]): string {
  const suites = Map.groupBy(results, ({ file }) => file)
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts(results)}>`,
    ...[...suites].flatMap(([file, cases]) => [
      `  <testsuite name="${escaped(file)}" ${counts(cases)}>`,
      ...cases.flatMap(caseLines),
      '  </testsuite>',
    ]),
    '</testsuites>',
    '',
  ].join('\n')
}

function counts(results: readonly TestResult[]): string {
  const failures = results.filter((result) => result.failures.length > 0).length
  const seconds = results.reduce((sum, result) => sum + result.seconds, 0)
  return `tests="${results.length}" failures="${failures}" time="${seconds.toFixed(3)}"`
}

function caseLines({ file, name, seconds, failures }: TestResult): string[] {
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
    // XML 1.0 cannot represent these.
    // oxlint-disable-next-line no-control-regex
    .replaceAll(/[\u0000-\u0008\u000B\u000C\u000E-\u001F]/g, '�')
