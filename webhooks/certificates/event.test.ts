import { expect, test } from 'vitest'
import { eventOf } from './event.ts'
import { authorityLifeMs, leafLifeMs } from './plan.ts'
import type { Authority, Leaf, Observed, Step } from './plan.ts'

const nowMs = Date.UTC(2030, 0, 1)
const authority = (subject: string): Authority => ({
  pem: subject,
  key: 'key',
  subject: `CN=${subject}`,
  notBefore: nowMs,
  notAfter: nowMs + authorityLifeMs,
})
const [a, b, foreign] = [authority('virtset-webhooks-a'), authority('virtset-webhooks-b'), authority('foreign')]
const leaf: Leaf = {
  pem: 'leaf',
  key: 'key',
  subject: 'CN=webhooks',
  issuer: a.subject,
  notBefore: nowMs,
  notAfter: nowMs + leafLifeMs,
  dnsNames: [],
}
const observed = (of: Partial<Observed>): Observed => ({
  nowMs,
  dnsNames: [],
  keyring: { authorities: [a], trusted: [], leaf },
  served: leaf,
  bundles: [[a], [a]],
  hasSigned: ({ subject }, { issuer }) => subject === issuer,
  ...of,
})
const empty = { authorities: [], trusted: [] }
const create = { kind: 'create-authority', keep: empty } as const
const renew = { kind: 'create-authority', keep: { ...empty, authorities: [a] } } as const
const recreate = { kind: 'create-authority', keep: { ...empty, trusted: [a] } } as const
const publish = { kind: 'publish', certificates: [a, b] } as const
const issue = { kind: 'issue', by: a, keep: { ...empty, authorities: [a] } } as const
const store = { kind: 'store', keyring: { ...empty, authorities: [a] } } as const
const { served: _none, ...starting } = observed({ keyring: empty })

test.each<[string, Exclude<Step, { kind: 'serve' }>, Observed, string]>([
  ['the first authority', create, starting, 'Normal AuthorityCreated'],
  ['the next authority', renew, observed({}), 'Normal AuthorityRenewed'],
  ['an authority that replaces a lost one', create, observed({ keyring: empty }), 'Warning AuthorityLost'],
  ['an authority beside the published one', recreate, starting, 'Warning AuthorityLost'],
  ['an authority that replaces one from a backup', recreate, observed({}), 'Warning AuthorityLost'],
  ['a Secret that was deleted', store, observed({ keyring: { ...empty, authorities: [a] } }), 'Warning SecretRepaired'],
  ['removing an old authority', store, observed({}), 'Normal AuthoritiesPruned'],
  ['the first bundle', publish, { ...starting, bundles: [[]] }, 'Normal CaBundlePublished'],
  [
    'a bundle from before the first certificate',
    publish,
    { ...starting, bundles: [[foreign]] },
    'Normal CaBundlePublished',
  ],
  ['the bundle of a rotation', publish, observed({}), 'Normal CaBundlePublished'],
  ['a bundle that was emptied', publish, observed({ bundles: [[a], []] }), 'Warning CaBundleRepaired'],
  [
    'a bundle with a foreign authority',
    publish,
    observed({ bundles: [[a], [a, foreign]] }),
    'Warning CaBundleRepaired',
  ],
  [
    'a bundle with a foreign authority that has the subject of ours',
    publish,
    observed({ bundles: [[a], [a, { ...a, pem: 'forged' }]] }),
    'Warning CaBundleRepaired',
  ],
  ['the first certificate', issue, starting, 'Normal CertificateIssued'],
  ['the next certificate', issue, observed({ nowMs: leaf.notAfter - leafLifeMs / 4 }), 'Normal CertificateRenewed'],
  [
    'a certificate with just a third of its life left',
    issue,
    observed({ nowMs: leaf.notAfter - leafLifeMs / 3 }),
    'Normal CertificateRenewed',
  ],
  ['a certificate for more names', issue, observed({ dnsNames: ['b.svc'] }), 'Normal CertificateRenewed'],
  ['a certificate of another authority', issue, observed({}), 'Warning CertificateReplaced'],
  ['a certificate that expired', issue, observed({ nowMs: leaf.notAfter }), 'Warning CertificateExpired'],
  [
    'a certificate that expired before the process started',
    issue,
    { ...starting, keyring: { ...empty, leaf }, nowMs: leaf.notAfter },
    'Warning CertificateExpired',
  ],
  [
    'a certificate that cannot be read',
    issue,
    observed({ keyring: { ...empty, authorities: [a] } }),
    'Warning CertificateReplaced',
  ],
])('%s', (_, step, of, expected) => {
  const { type, reason, message } = eventOf(step, of)
  expect([`${type} ${reason}`, message.length > 0]).toEqual([expected, true])
})

test.each([
  [[a], '1 certificate authority'],
  [[a, b], '2 certificate authorities'],
])('counts the published authorities', (certificates, expected) => {
  expect(eventOf({ kind: 'publish', certificates }, observed({})).message).toContain(expected)
})
