import { expect, test } from 'vitest'
import { landlockArguments } from './landlock.ts'

test('files can be removed below the named directories only', () =>
  expect(landlockArguments(['/a', '/b'])).toEqual([
    '--no-new-privs',
    '--landlock-access',
    'fs:remove-file,refer',
    '--landlock-rule',
    'path-beneath:remove-file,refer:/a',
    '--landlock-rule',
    'path-beneath:remove-file,refer:/b',
  ]))
