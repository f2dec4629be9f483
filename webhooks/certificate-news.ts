import { leafLifeMs } from './certificates.ts'
import type { Certificate, Observed, Step } from './certificates.ts'

/** What an operator reads of a step that was taken. */
export interface News {
  /** Warning: something was not as virtset had left it. Normal: the course of things. */
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

const normal = (reason: string, message: string): News => ({ type: 'Normal', reason, message })
const warning = (reason: string, message: string): News => ({ type: 'Warning', reason, message })

/** Tells a step of the course of things from one that heals what somebody spoiled. */
export function newsOf(step: Exclude<Step, { kind: 'serve' }>, observed: Observed): News {
  const { keyring, served } = observed
  switch (step.kind) {
    case 'create-authority':
      if (keyring.authorities.length > 0) return normal('AuthorityRenewed', 'made the next certificate authority')
      return served === undefined
        ? normal('AuthorityCreated', 'made the first certificate authority')
        : warning('AuthorityLost', 'the Secret held no certificate authority that can sign; made another one')
    case 'store':
      return keyring.leaf === undefined
        ? warning('SecretHealed', 'the Secret had lost the certificate; put back the one that is served')
        : normal('AuthoritiesPruned', 'took certificate authorities that nobody needs any more out of the Secret')
    case 'publish':
      return publishNews(step.certificates, observed)
    case 'issue':
      return issueNews(observed)
  }
}

/** A bundle that does not trust what is served, or trusts what is none of ours, is none that we have left. */
function publishNews(certificates: readonly Certificate[], { bundles, served }: Observed): News {
  const isOurs = ({ subject }: Certificate) => subject.startsWith('CN=virtset-webhooks-')
  const isSpoiled = bundles.some(
    (bundle) =>
      !bundle.every(isOurs) || (served !== undefined && !bundle.some(({ subject }) => subject === served.issuer)),
  )
  const count = `${certificates.length} certificate ${certificates.length === 1 ? 'authority' : 'authorities'}`
  return isSpoiled && served !== undefined
    ? warning('CaBundleHealed', `the caBundle of the webhooks had been changed; published ${count}`)
    : normal('CaBundlePublished', `published ${count} in the caBundle of the webhooks`)
}

function issueNews({ keyring: { leaf }, served, nowMs }: Observed): News {
  if (leaf === undefined && served === undefined) return normal('CertificateIssued', 'issued the first certificate')
  if (leaf !== undefined && nowMs >= leaf.notAfter) {
    return warning('CertificateExpired', 'the certificate had ended; issued another one')
  }
  if (leaf !== undefined && nowMs >= leaf.notAfter - leafLifeMs / 3) {
    return normal('CertificateRenewed', 'issued the next certificate')
  }
  return warning('CertificateReplaced', 'the certificate of the Secret could not be used; issued another one')
}
