import { expect, test } from 'vitest'
import { lastLine } from './termination-message.ts'

test.each([
  [undefined, undefined],
  ['', undefined],
  ['\n \n', undefined],
  ['libvirtd: cannot write\n', 'libvirtd: cannot write'],
  ['{"level":"info","msg":"one"}\n{"level":"error","msg":"two"}\n', 'two'],
  ['{"level":"error","err":{"message":"no space"},"msg":"cannot start"}', 'cannot start: no space'],
  ['{"msg":"one\\nReady: True"}', 'one; Ready: True'],
  // The kubelet cuts the log at 2 KiB, which may be within a line.
  ['"info","msg":"one"}', '"info","msg":"one"}'],
  ['{"level":"error","msg":', '{"level":"error","msg":'],
  ['{"level":"error"}', '{"level":"error"}'],
])('of %j: %j', (message, words) => {
  expect(lastLine(message)).toBe(words)
})
