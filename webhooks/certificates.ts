/**
 * How the webhooks come by their own certificates: what to do next, from what is there. Nothing here does it.
 *
 * All replicas share one Secret and need no leader: each takes the next step that it sees, and the Secret's version lets one
 * of them through. The order holds at every moment: an authority is published in the `caBundle` of the webhooks before anything
 * that it signed is served, and stays there as long as anybody may serve something that it signed. So no connection ever fails.
 */

const dayMs = 24 * 3600 * 1000

export const authorityLifeMs = 365 * dayMs
export const leafLifeMs = 7 * dayMs
/** Certificates begin this much in the past: clocks of other machines may be behind, two days is the most that we bear. */
export const backdateMs = 3 * dayMs
/** For how long after a change of the leaf another replica may still serve the one before, and an API server believe the bundle before. */
export const settleMs = 10 * 60 * 1000

export interface Certificate {
  readonly pem: string
  /** The name; each authority's is its own, so that it tells who signed what. */
  readonly subject: string
  readonly notBefore: number
  readonly notAfter: number
}

export interface Authority extends Certificate {
  readonly key: string
}

export interface Leaf extends Certificate {
  readonly key: string
  readonly issuer: string
  readonly dnsNames: readonly string[]
}

/** What the Secret holds. */
export interface Keyring {
  /** Those that can sign, oldest first. */
  readonly authorities: readonly Authority[]
  /** Those whose key is lost, but which signed what somebody may still serve. */
  readonly trusted: readonly Certificate[]
  readonly leaf?: Leaf
}

export interface Observed {
  readonly nowMs: number
  readonly dnsNames: readonly string[]
  readonly keyring: Keyring
  /** What this process serves at the moment; it may be gone from the Secret. */
  readonly served?: Leaf
  /** For each webhook of the configurations, the authorities that stand in its `caBundle`. */
  readonly bundles: readonly (readonly Certificate[])[]
}

export type Step =
  | { readonly kind: 'create-authority'; readonly keep: Keyring }
  | { readonly kind: 'store'; readonly keyring: Keyring }
  | { readonly kind: 'publish'; readonly certificates: readonly Certificate[] }
  | { readonly kind: 'issue'; readonly by: Authority; readonly keep: Keyring }
  | { readonly kind: 'serve'; readonly leaf: Leaf }

/** The next step; `serve` is the last one. */
export function planCertificates(observed: Observed): Step {
  const { nowMs, bundles, keyring } = observed
  const keep = pruned(observed)
  const newest = keep.authorities.at(-1)
  if (newest === undefined || nowMs >= newest.notAfter - authorityLifeMs / 3) {
    return { kind: 'create-authority', keep }
  }
  if (keep.authorities.length !== keyring.authorities.length || !sameCertificates(keep.trusted, keyring.trusted)) {
    return { kind: 'store', keyring: keep }
  }
  const certificates = [...keep.authorities, ...keep.trusted]
  if (bundles.some((bundle) => !sameCertificates(bundle, certificates))) return { kind: 'publish', certificates }
  const { leaf } = keep
  if (leaf !== undefined && isGood(leaf, keep, observed)) return { kind: 'serve', leaf }
  const { served } = observed
  if (leaf === undefined && served !== undefined && isGood(served, keep, observed)) {
    return { kind: 'store', keyring: { ...keep, leaf: served } }
  }
  return { kind: 'issue', by: signer(keep.authorities, nowMs) ?? newest, keep }
}

/** The newest that has been in the bundle long enough for every API server to have heard of it. */
const signer = (authorities: readonly Authority[], nowMs: number): Authority | undefined =>
  authorities.findLast((authority) => nowMs - (authority.notAfter - authorityLifeMs) >= settleMs)

/**
 * A leaf whose authority has lost its key serves on until another authority is known everywhere, which is when it is replaced.
 */
function isGood(leaf: Leaf, { authorities, trusted }: Keyring, { nowMs, dnsNames }: Observed): boolean {
  const isSigned = ({ subject }: Certificate) => subject === leaf.issuer
  const isWaiting = trusted.some(isSigned) && signer(authorities, nowMs) === undefined
  return (
    (authorities.some(isSigned) || isWaiting) &&
    nowMs >= leaf.notBefore &&
    nowMs < leaf.notAfter - leafLifeMs / 3 &&
    dnsNames.every((name) => leaf.dnsNames.includes(name))
  )
}

/** Without what has ended; with what is trusted by the bundle now and signed what is served now. */
function pruned({ nowMs, keyring, served, bundles }: Observed): Keyring {
  const isValid = ({ notBefore, notAfter }: Certificate) => notBefore <= nowMs && nowMs < notAfter
  const authorities = keyring.authorities.filter(isValid)
  const { leaf } = keyring
  const isFresh = leaf === undefined || nowMs - (leaf.notAfter - leafLifeMs) < settleMs
  const needed = [leaf?.issuer, served?.issuer]
  const found = bundles.flat().filter(({ subject }) => subject === served?.issuer)
  const trusted = [...keyring.trusted.filter(({ subject }) => isFresh || needed.includes(subject)), ...found]
    .filter(isValid)
    .filter(({ pem }) => !authorities.some((authority) => authority.pem === pem))
  const once = trusted.filter(({ pem }, index) => trusted.findIndex((other) => other.pem === pem) === index)
  return { authorities, trusted: once, ...(leaf === undefined ? {} : { leaf }) }
}

function sameCertificates(left: readonly Certificate[], right: readonly Certificate[]): boolean {
  const pems = (certificates: readonly Certificate[]) => new Set(certificates.map(({ pem }) => pem))
  return left.length === right.length && pems(left).symmetricDifference(pems(right)).size === 0
}
