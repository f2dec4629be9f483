import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Cause } from '../api/cause.ts'
import { renderCause } from '../api/refusal.ts'
import { answerReview, parseReview } from './review.ts'
import type { Review } from './review.ts'
import { writePatch } from './patch.ts'

const request = {
  uid: 'u-1',
  kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
  operation: 'CREATE',
  name: 'vm1',
  namespace: 'default',
  userInfo: { username: 'jane', groups: ['system:authenticated'] },
  object: { metadata: { name: 'vm1' } },
  dryRun: true,
}
const body = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request }
const review: Review = {
  uid: 'u-1',
  kind: 'VirtualMachine',
  operation: 'CREATE',
  name: 'vm1',
  namespace: 'default',
  user: { username: 'jane', groups: ['system:authenticated'] },
  isDryRun: true,
  object: { metadata: { name: 'vm1' } },
  oldObject: undefined,
  request,
}

describe('a review', () => {
  test('is read', () => expect(parseReview(body)).toEqual({ review }))

  test.each<[string, unknown, string, string]>([
    ['null', null, '', 'the body is no object'],
    ['another kind', { ...body, kind: 'Pod' }, '', 'the body is no AdmissionReview with a request'],
    [
      'an answer',
      { apiVersion: body.apiVersion, kind: body.kind },
      '',
      'the body is no AdmissionReview with a request',
    ],
    ['v1beta1', { ...body, apiVersion: 'admission.k8s.io/v1beta1' }, 'u-1', 'only admission.k8s.io/v1 is spoken here'],
    ['one without uid', { ...body, request: { ...request, uid: 7 } }, '', 'the request has no uid'],
    [
      'DELETE',
      { ...body, request: { ...request, operation: 'DELETE' } },
      'u-1',
      'only CREATE and UPDATE are reviewed here',
    ],
  ])('is not: %s', (_, given, uid, problem) => expect(parseReview(given)).toEqual({ uid, problem }))

  test('is anything at all without a crash', () => {
    const property = fc.property(fc.jsonValue(), (value) => 'problem' in parseReview({ ...body, request: value }))
    expect(fc.check(property).failed).toBe(false)
  })
})

describe('a cause as kubectl prints it', () => {
  const cause: Cause = { rule: 'r', field: 'f', reason: 'FieldValueInvalid', message: 'must be at most 8' }
  const preset = { by: 'preset', namespace: 'shop', name: 'small', revision: '1a2b' } as const

  test.each<[Partial<Cause>, string]>([
    [{ value: 16 }, 'Invalid value: 16: must be at most 8'],
    [{}, 'Invalid value: must be at most 8'],
    [{ value: 'a"b', reason: 'FieldValueNotSupported' }, 'Unsupported value: "a\\"b": must be at most 8'],
    [{ reason: 'FieldValueRequired', value: 1 }, 'Required value: must be at most 8'],
    [{ reason: 'FieldValueForbidden', value: 1 }, 'Forbidden: must be at most 8'],
    [{ reason: 'FieldValueDuplicate', value: 'vda' }, 'Duplicate value: "vda": must be at most 8'],
    [{ origin: { by: 'user' } }, 'Invalid value: must be at most 8'],
    [{ origin: preset }, 'Invalid value: must be at most 8 (preset shop/small@1a2b)'],
    [
      { origin: { by: 'preset', name: 'small', revision: '1a2b' }, suggestion: 'did you mean 1?' },
      'Invalid value: must be at most 8 (cluster preset small@1a2b); did you mean 1?',
    ],
    [{ origin: { by: 'default', rule: 'usb' } }, "Invalid value: must be at most 8 (libvirt's default, usb)"],
    [{ value: 'x'.repeat(500) }, `Invalid value: "${'x'.repeat(78)}…: must be at most 8`],
  ])('%j', (change, text) => expect(renderCause({ ...cause, ...change })).toBe(text))
})

describe('an answer', () => {
  const cause: Cause = { rule: 'r', field: 'spec.a', reason: 'FieldValueForbidden', message: 'no' }

  test('that allows without a change has no patch', () => {
    expect(answerReview(review, { allowed: true, patch: writePatch([]) })).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u-1', allowed: true },
    })
  })

  test('that changes something has both patch and its type', () => {
    const { response } = answerReview(review, {
      allowed: true,
      patch: writePatch([{ op: 'add', path: '/ü', value: 1 }]),
    })
    expect([response.patchType, Buffer.from(response.patch ?? '', 'base64').toString()]).toEqual([
      'JSONPatch',
      '[{"op":"add","path":"/ü","value":1}]',
    ])
  })

  test('that refuses is 422 Invalid with every cause', () => {
    const { response } = answerReview(review, { allowed: false, causes: [cause, { ...cause, field: 'spec.b' }] })
    expect(response).toEqual({
      uid: 'u-1',
      allowed: false,
      status: {
        code: 422,
        reason: 'Invalid',
        message: 'VirtualMachine "vm1" is invalid: spec.a: Forbidden: no (and 1 more)',
        details: {
          group: 'virtset.io',
          kind: 'VirtualMachine',
          name: 'vm1',
          causes: [
            { reason: 'FieldValueForbidden', field: 'spec.a', message: 'Forbidden: no' },
            { reason: 'FieldValueForbidden', field: 'spec.b', message: 'Forbidden: no' },
          ],
        },
      },
    })
  })

  test('tells how many causes did not fit', () => {
    const causes = Array.from({ length: 10_000 }, (_, index) => ({ ...cause, field: `spec.field${index}` }))
    const shown = answerReview(review, { allowed: false, causes }).response.status?.details?.causes ?? []
    expect(JSON.stringify(shown).length).toBeLessThan(1024 * 1024)
    expect(shown.at(-1)?.message).toBe(`and ${10_000 - shown.length + 1} more`)
  })

  test('has each warning once, each short, all within what the API server takes', () => {
    const warnings = [
      'a',
      'a',
      '😀'.repeat(100),
      ...Array.from({ length: 90 }, (_, index) => `${index} ${'x'.repeat(200)}`),
    ]
    const given = answerReview(review, { allowed: true, warnings }).response.warnings ?? []
    expect(given.filter((text) => text.length >= 120 || !text.isWellFormed())).toEqual([])
    expect(given.join('').length).toBeLessThan(4096)
    expect([given[0], given.at(-1)]).toEqual(['a', `and ${92 - given.length + 1} more warnings`])
  })
})
