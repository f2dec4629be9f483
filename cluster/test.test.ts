import { expect, test } from 'vitest'

import { summary } from './test.ts'

test('reports vitest’s figures, and counts files that did not load and failed checks as failures', () => {
  const report = {
    numPassedTests: 12,
    numFailedTests: 1,
    testResults: [
      { status: 'passed', assertionResults: [{}] },
      { status: 'failed', assertionResults: [{}] },
      { status: 'failed', assertionResults: [] },
    ],
  }
  expect(summary(JSON.stringify(report), 0, false)).toBe('12 passed, 2 failed')
  expect(summary(JSON.stringify(report), 2, false)).toBe('12 passed, 4 failed')
  const well = { numPassedTests: 12, numFailedTests: 0, testResults: [] }
  expect(summary(JSON.stringify(well), 0, true)).toBe('12 passed, 0 failed')
  expect(summary(JSON.stringify(well), 0, false)).toBe('12 passed, 1 failed')
})
