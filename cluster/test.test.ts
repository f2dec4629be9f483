import { expect, test } from 'vitest'

import { summary } from './test.ts'

test('the figures are vitest’s, and a file that did not load has failed', () => {
  const report = {
    numPassedTests: 12,
    numFailedTests: 1,
    testResults: [
      { status: 'passed', assertionResults: [{}] },
      { status: 'failed', assertionResults: [{}] },
      { status: 'failed', assertionResults: [] },
    ],
  }
  expect(summary(JSON.stringify(report))).toBe('12 passed, 2 failed')
})
