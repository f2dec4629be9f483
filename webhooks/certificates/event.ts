import { leafLifeMs } from './plan.ts'
import type { Certificate, Observed, Step } from './plan.ts'

/** The Kubernetes event of a step. */
export interface CertificateEvent {
  /** Warning: another party changed what virtset had written. Normal: routine. */
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

const normal = (reason: string, message: string): CertificateEvent => ({ type: 'Normal', reason, message })
const warning = (reason: string, message: string): CertificateEvent => ({ type: 'Warning', reason, message })

/** Distinguishes a routine step from one that repairs tampering. */
export function eventOf(step: Exclude<Step, { kind: 'serve' }>, observed: Observed): CertificateEvent {
  const { keyring, served } = observed
  switch (step.kind) {
    case 'create-authority':
      if (step.keep.authorities.length > 0) return normal('AuthorityRenewed', 'created the next certificate authority')
      return served === undefined && step.keep.trusted.length === 0
        ? normal('AuthorityCreated', 'created the first certificate authority')
        : warning('AuthorityLost', 'the Secret had no usable certificate authority with its key; created another one')
    case 'store':
      return keyring.leaf === undefined
        ? warning('SecretRepaired', 'the certificate was missing from the Secret; restored the served one')
        : normal('AuthoritiesPruned', 'removed certificate authorities that are no longer needed from the Secret')
    case 'publish':
      return publishEvent(step.certificates, observed)
    case 'issue':
      return issueEvent(observed)
  }
}

/**
 * virtset never leaves a bundle without the authority of the served certificate, or one that contains a foreign one, or
 * two with the same subject.
 */
function publishEvent(certificates: readonly Certificate[], { bundles, served }: Observed): CertificateEvent {
  const pems = new Map(certificates.map(({ subject, pem }) => [subject, pem]))
  const isOurs = ({ subject, pem }: Certificate) =>
    subject.startsWith('CN=virtset-webhooks-') && (pems.get(subject) ?? pem) === pem
  const isTampered = bundles.some(
    (bundle) =>
      !bundle.every(isOurs) || (served !== undefined && !bundle.some(({ subject }) => subject === served.issuer)),
  )
  const count = `${certificates.length} certificate ${certificates.length === 1 ? 'authority' : 'authorities'}`
  return isTampered && served !== undefined
    ? warning('CaBundleRepaired', `the caBundle of an APIService had been changed; published ${count}`)
    : normal('CaBundlePublished', `published ${count} in the caBundle of the APIServices`)
}

function issueEvent({ keyring: { leaf }, served, nowMs, dnsNames }: Observed): CertificateEvent {
  if (leaf === undefined && served === undefined) return normal('CertificateIssued', 'issued the first certificate')
  if (leaf !== undefined && nowMs >= leaf.notAfter) {
    return warning('CertificateExpired', 'the certificate had expired; issued another one')
  }
  if (leaf !== undefined && nowMs >= leaf.notAfter - leafLifeMs / 3) {
    return normal('CertificateRenewed', 'issued the next certificate')
  }
  if (leaf !== undefined && !dnsNames.every((name) => leaf.dnsNames.includes(name))) {
    return normal('CertificateRenewed', 'issued a certificate with names that the previous one lacked')
  }
  return warning('CertificateReplaced', 'the certificate in the Secret was missing or not usable; issued another one')
}
