import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Cause } from '../../api/cause.ts'
import { renderCause } from '../../api/refusal.ts'
import { admissionReviewOf, parseAdmissionReview } from './request.ts'
import type { AdmissionRequest } from './request.ts'
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
const parsed: AdmissionRequest = {
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

describe('an AdmissionReview', () => {
  test('is parsed', () => expect(parseAdmissionReview(body)).toEqual({ request: parsed }))

  test.each<[string, object, object]>([
    ['an update', { operation: 'UPDATE', oldObject: {} }, { operation: 'UPDATE', oldObject: {} }],
    ['without kind', { kind: 7 }, { kind: '' }],
    ['without user', { userInfo: undefined }, { user: { username: '', groups: [] } }],
    [
      'with a user with uid and extra',
      { userInfo: { username: 'jane', groups: 7, uid: 'u', extra: { scopes: ['x'] } } },
      { user: { username: 'jane', groups: [], uid: 'u', extra: { scopes: ['x'] } } },
    ],
    [
      'with a malformed user',
      { userInfo: { username: 7, groups: ['a', 7], uid: 7, extra: 7 } },
      { user: { username: '', groups: ['a', ''] } },
    ],
    ['of a real run', { dryRun: 'true' }, { isDryRun: false }],
  ])('is parsed: %s', (_, change, expected) => {
    const changed = { ...request, ...change }
    expect(parseAdmissionReview({ ...body, request: changed })).toEqual({
      request: { ...parsed, ...expected, request: changed },
    })
  })

  test.each<[string, unknown, string, string]>([
    ['null', null, '', 'the body is not an object'],
    ['another kind', { ...body, kind: 'Pod' }, '', 'the body is not an AdmissionReview with a request'],
    [
      'a response',
      { apiVersion: body.apiVersion, kind: body.kind },
      '',
      'the body is not an AdmissionReview with a request',
    ],
    ['v1beta1', { ...body, apiVersion: 'admission.k8s.io/v1beta1' }, 'u-1', 'only admission.k8s.io/v1 is supported'],
    ['one without uid', { ...body, request: { ...request, uid: 7 } }, '', 'the request has no uid'],
    [
      'DELETE',
      { ...body, request: { ...request, operation: 'DELETE' } },
      'u-1',
      'only the operations CREATE and UPDATE are supported',
    ],
  ])('is rejected: %s', (_, given, uid, problem) => expect(parseAdmissionReview(given)).toEqual({ uid, problem }))

  test('never throws, for any request', () => {
    const property = fc.property(
      fc.jsonValue(),
      (value) => 'problem' in parseAdmissionReview({ ...body, request: value }),
    )
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

describe('a response', () => {
  const cause: Cause = { rule: 'r', field: 'spec.a', reason: 'FieldValueForbidden', message: 'no' }

  test('without changes has no patch', () => {
    expect(admissionReviewOf(parsed, { allowed: true, patch: writePatch([]) })).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u-1', allowed: true },
    })
  })

  test('with changes has a patch and its type', () => {
    const { response } = admissionReviewOf(parsed, {
      allowed: true,
      patch: writePatch([{ op: 'add', path: '/ü', value: 1 }]),
    })
    expect([response.patchType, Buffer.from(response.patch ?? '', 'base64').toString()]).toEqual([
      'JSONPatch',
      '[{"op":"add","path":"/ü","value":1}]',
    ])
  })

  test('that refuses is 422 Invalid with every cause', () => {
    const { response } = admissionReviewOf(parsed, { allowed: false, causes: [cause, { ...cause, field: 'spec.b' }] })
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

  test.each<[string, string, unknown, string]>([
    ['its own name', 'vm1', {}, 'VirtualMachine "vm1" is invalid: spec.a: Forbidden: no'],
    ['the name of its object', '', { metadata: { name: 'a' } }, 'VirtualMachine "a" is invalid: spec.a: Forbidden: no'],
    ['generateName', '', { metadata: { generateName: 'b-' } }, 'VirtualMachine "b-" is invalid: spec.a: Forbidden: no'],
    ['nothing', '', { metadata: 7 }, 'VirtualMachine "" is invalid: spec.a: Forbidden: no'],
    ['an object of another type', '', 7, 'VirtualMachine "" is invalid: spec.a: Forbidden: no'],
  ])('names the object by %s', (_, name, object, expected) => {
    const { response } = admissionReviewOf({ ...parsed, name, object }, { allowed: false, causes: [cause] })
    expect(response.status?.message).toBe(expected)
  })

  test('shortens a name and a field of megabytes', () => {
    const long = 'x'.repeat(3_000_000)
    const review = admissionReviewOf(
      { ...parsed, name: long },
      { allowed: false, causes: [cause, { ...cause, field: `spec.${long}` }] },
    )
    expect(review.response.status?.details).toMatchObject({
      name: `${'x'.repeat(252)}…`,
      causes: [{ field: 'spec.a' }, { field: `spec.${'x'.repeat(1018)}…` }],
    })
    expect(JSON.stringify(review).length).toBeLessThan(3000)
  })

  test('has audit annotations only if there are any', () => {
    const annotationsOf = (audit: Record<string, string>) =>
      admissionReviewOf(parsed, { allowed: true, audit }).response.auditAnnotations
    expect([annotationsOf({ presets: 'a' }), annotationsOf({})]).toEqual([{ presets: 'a' }, undefined])
  })

  test('without causes is "refused"', () => {
    const { response } = admissionReviewOf(parsed, { allowed: false, causes: [] })
    expect(response.status?.message).toBe('VirtualMachine "vm1" is invalid: refused')
  })

  test('counts the causes that did not fit', () => {
    const causes = Array.from({ length: 10_000 }, (_, index) => ({ ...cause, field: `spec.field${index}` }))
    const shown = admissionReviewOf(parsed, { allowed: false, causes }).response.status?.details?.causes ?? []
    expect(JSON.stringify(shown).length).toBeLessThan(1024 * 1024)
    expect(shown.at(-1)?.message).toBe(`and ${10_000 - shown.length + 1} more`)
  })

  test('has each warning once, each short, all within the limits of the API server', () => {
    const warnings = [
      'a',
      'a',
      '😀'.repeat(100),
      ...Array.from({ length: 90 }, (_, index) => `${index} ${'x'.repeat(200)}`),
    ]
    const given = admissionReviewOf(parsed, { allowed: true, warnings }).response.warnings ?? []
    expect(given.filter((text) => text.length >= 120 || !text.isWellFormed())).toEqual([])
    expect(given.join('').length).toBeLessThan(4096)
    expect([given[0], given.at(-1)]).toEqual(['a', `and ${92 - given.length + 1} more warnings`])
  })
})
