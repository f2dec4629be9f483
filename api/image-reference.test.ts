import { describe, expect, test } from 'vitest'
import { isImageReference } from './image-reference.ts'

const digest = `sha256:${'0'.repeat(64)}`

describe('an image reference', () => {
  test.each([
    'debian',
    'debian:13',
    'quay.io/containerdisks/fedora:42',
    'localhost/virtset/guest-disk:0f',
    'localhost:5000/a',
    '127.0.0.1:5000/a/b__c-d.e:T_1.2',
    '[::1]:5000/a',
    'Registry:5000/a',
    `example.com/a@${digest}`,
    `example.com/a:1@${digest}`,
  ])('can be %s', (text) => expect(isImageReference(text)).toBe(true))

  test.each([
    '',
    ' debian',
    'debian:',
    'debian:1:2',
    'Not A/Ref',
    'Debian',
    'a//b',
    '/a',
    'a/',
    '../a',
    'a/../b',
    'https://example.com/a',
    'a@sha256:12',
    `a@${digest}@${digest}`,
    `a:${'x'.repeat(129)}`,
    'a'.repeat(256),
    'a\n',
    '$(id)',
  ])('cannot be %j', (text) => expect(isImageReference(text)).toBe(false))
})
