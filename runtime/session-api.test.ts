import { expect, test } from 'vitest'
import { formatHead, parseHead, parsePosition, parseTarget, pathOfTarget } from './session-api.ts'
import type { SessionHead, SessionTarget } from './session-api.ts'

test.each<[string, SessionTarget]>([
  ['/console', { kind: 'console', isFollowing: true }],
  ['/console?tail=100', { kind: 'console', tailBytes: 100, isFollowing: true }],
  ['/console?tail=0&follow=false', { kind: 'console', tailBytes: 0, isFollowing: false }],
  ['/console?after=0123abcd.7', { kind: 'console', after: { epoch: '0123abcd', offset: 7 }, isFollowing: true }],
  ['/console?follow=false&mark=true', { kind: 'console', isFollowing: false, isEndMarked: true }],
  ['/vnc', { kind: 'vnc' }],
  ['/screenshot', { kind: 'screenshot' }],
  ['/metrics', { kind: 'metrics' }],
  ['/tcp/1', { kind: 'tcp', port: 1 }],
  ['/tcp/65535', { kind: 'tcp', port: 65535 }],
])('%s is written and parsed', (path, target) => {
  expect(pathOfTarget(target)).toBe(path)
  expect(parseTarget(path)).toEqual(target)
})

test.each([
  '/',
  '/consoles',
  '/console/x',
  '/vnc/x',
  '/tcp',
  '/tcp/0',
  '/tcp/65536',
  '/tcp/-1',
  '/tcp/1.5',
  '/tcp/22/x',
  '//console',
  '/console?tail=-1',
  '/console?tail=1e9',
  '/console?tail=9999999999',
  '/console?after=',
  '/console?after=0123abcd',
  '/console?after=0123abcd.1x',
  '/console?after=0123ABCD.1',
])('%s is malformed', (path) => {
  expect(parseTarget(path)).toBeUndefined()
})

test('a position with a line break is malformed', () => {
  expect(parsePosition('0123abcd.1\n')).toBeUndefined()
})

test.each<[SessionHead, string]>([
  [{}, ''],
  [{ position: { epoch: '0123abcd', offset: 7 } }, 'virtset-position: 0123abcd.7\r\n'],
  [{ isEndMarked: true }, 'virtset-end: marked\r\n'],
])('the head of %j is written and parsed', (head, lines) => {
  const written = formatHead('virtset', head)
  expect(written).toBe(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: virtset\r\n${lines}\r\n`)
  expect(parseHead(Object.fromEntries(lines.split('\r\n').map((line) => line.split(': '))))).toEqual(head)
})
