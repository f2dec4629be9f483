import { expect, test } from 'vitest'
import { excludedBy, powerVerbs } from './power-state.ts'

test.each([
  ['Stopped', ['start']],
  ['Failed', ['start']],
  ['Starting', ['stop', 'restart']],
  ['Running', ['stop', 'restart']],
  ['Unknown', ['stop', 'restart']],
  ['Stopping', ['stop']],
  ['', ['start', 'stop', 'restart']],
])('in the phase "%s" one can %j', (phase, expected) => {
  expect(powerVerbs.filter((verb) => excludedBy(verb, phase) === undefined)).toEqual(expected)
})
