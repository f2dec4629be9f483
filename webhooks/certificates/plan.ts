/**
 * How the webhooks issue and renew their own certificates. Pure: it decides the next step; `certificate-controller.ts`
 * performs it.
 *
 * All replicas share one Secret and need no leader: each takes the next step that it sees, and the Secret's
 * resourceVersion lets only one of them write. At every moment, an authority is in the `caBundle` of both APIServices
 * before a certificate that it signed is served, and remains there while any replica may serve one. So no connection
 * ever fails. A replica that serves a usable certificate changes to another one only when the authority of that one has
 * been in the bundles for `settleMs`.
 */

const dayMs = 24 * 3600 * 1000

export const authorityLifeMs = 365 * dayMs
export const leafLifeMs = 7 * dayMs
/**
 * Certificates become valid this long before now, because other hosts' clocks may be behind; two days are tolerated.
 */
export const backdateMs = 3 * dayMs
/**
 * How long after a change another replica may still serve the previous leaf, and an API server trust the previous
 * bundle.
 */
export const settleMs = 10 * 60 * 1000
/**
 * Authorities without a key that are kept at most, and the length of each. A bundle can have thousands, and an object
 * holds about a MiB. One of an RSA key with 4096 bits takes 2000 characters.
 */
export const maxTrusted = 16
export const maxTrustedLength = 8192

export interface Certificate {
  readonly pem: string
  /** Unique for each authority, so that a leaf's issuer identifies it. In a bundle, another one can have it too. */
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

/** The contents of the Secret. */
export interface Keyring {
  /** Authorities with their key, oldest first. */
  readonly authorities: readonly Authority[]
  /** Authorities whose key is lost, but which signed a leaf that a replica may still serve. */
  readonly trusted: readonly Certificate[]
  readonly leaf?: Leaf
}

export interface Observed {
  readonly nowMs: number
  readonly dnsNames: readonly string[]
  readonly keyring: Keyring
  /** The leaf that this process serves now; it may be missing from the Secret. */
  readonly served?: Leaf
  /** The authorities in the `caBundle` of each APIService. */
  readonly bundles: readonly (readonly Certificate[])[]
  /** Whether the authority signed the leaf, and does not only have the name of its issuer. */
  readonly hasSigned: (authority: Certificate, leaf: Leaf) => boolean
}

export type Step =
  | { readonly kind: 'create-authority'; readonly keep: Keyring }
  | { readonly kind: 'store'; readonly keyring: Keyring }
  | { readonly kind: 'publish'; readonly certificates: readonly Certificate[] }
  | { readonly kind: 'issue'; readonly by: Authority; readonly keep: Keyring }
  | { readonly kind: 'serve'; readonly leaf: Leaf }

/** Returns the next step; `serve` is final. */
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
  const { served } = observed
  if (served !== undefined && isGood(served, keep, observed)) {
    if (leaf === undefined) return { kind: 'store', keyring: { ...keep, leaf: served } }
    // The replica that issued the other one had nothing to serve, and could not wait.
    const isWaiting = leaf.issuer !== served.issuer && signer(keep.authorities, nowMs) === undefined
    if (isWaiting) return { kind: 'serve', leaf: served }
  }
  if (leaf !== undefined && isGood(leaf, keep, observed)) return { kind: 'serve', leaf }
  return { kind: 'issue', by: signer(keep.authorities, nowMs) ?? newest, keep }
}

/** The newest authority that has been in the bundle long enough for every API server to trust it. */
const signer = (authorities: readonly Authority[], nowMs: number): Authority | undefined =>
  authorities.findLast((authority) => nowMs - (authority.notAfter - authorityLifeMs) >= settleMs)

/**
 * A leaf whose authority has lost its key is served until every API server trusts another authority; then it is
 * replaced.
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

/**
 * An authority that is older than it is published: the Secret was restored from a backup, or nobody could publish it
 * until now. Its age does not tell whether an API server trusts it.
 */
const isStale = (authority: Authority, { nowMs, served, bundles }: Observed): boolean =>
  nowMs - (authority.notAfter - authorityLifeMs) >= settleMs &&
  bundles.flat().some(({ subject }) => subject === served?.issuer) &&
  !bundles.flat().some(({ pem }) => pem === authority.pem)

/** Drops stale, expired and unneeded authorities, and the leaf of a stale one. Adds those that the Secret has lost. */
function pruned(observed: Observed): Keyring {
  const { nowMs, keyring } = observed
  const stale = keyring.authorities.filter((authority) => isStale(authority, observed))
  const authorities = keyring.authorities.filter((authority) => isValid(authority, nowMs) && !stale.includes(authority))
  const leaf = stale.some(({ subject }) => subject === keyring.leaf?.issuer) ? undefined : keyring.leaf
  const kept = { authorities, trusted: keyring.trusted, ...(leaf === undefined ? {} : { leaf }) }
  return { ...kept, trusted: trusted({ ...observed, keyring: kept }) }
}

/**
 * The authorities without a key that replicas may need: those of the Secret while others may serve what they signed, and
 * those that signed a leaf. The latter are also taken from the bundles, but none with the subject of one in the Secret:
 * whoever can write one bundle must not bring its authority into the others.
 */
function trusted({ nowMs, keyring, served, bundles, hasSigned }: Observed): readonly Certificate[] {
  const { authorities, leaf } = keyring
  const leaves = [leaf, served].filter((each) => each !== undefined)
  const stored = usable(keyring.trusted, authorities, nowMs)
  const found = bundles.map((bundle) => usable(bundle, [...authorities, ...stored], nowMs))
  const isNeeded = (authority: Certificate) => leaves.some((each) => hasSigned(authority, each))
  const needed = [...stored, ...named(found, leaves)].filter(isNeeded)
  // The others may wait for `settleMs`, and change after it.
  const isFresh = leaf === undefined || nowMs - (leaf.notAfter - leafLifeMs) < 2 * settleMs
  // A process that knows no leaf cannot know what the other replicas serve.
  const others = [...(isFresh ? stored : []), ...(leaves.length === 0 ? inMost(found) : [])]
  // What replicas serve was signed by one of the newest; the authorities of a whole system are years old.
  const all = [...needed, ...others.toSorted((a, b) => b.notBefore - a.notBefore)]
  return [...new Map(all.map((certificate) => [certificate.pem, certificate])).values()].slice(0, maxTrusted)
}

/** Those that are valid, not too long, and have another subject than those that are known. */
function usable(
  certificates: readonly Certificate[],
  known: readonly Certificate[],
  nowMs: number,
): readonly Certificate[] {
  const subjects = new Set(known.map(({ subject }) => subject))
  return certificates.filter(
    (certificate) =>
      isValid(certificate, nowMs) && certificate.pem.length <= maxTrustedLength && !subjects.has(certificate.subject),
  )
}

const isValid = ({ notBefore, notAfter }: Certificate, nowMs: number): boolean => notBefore <= nowMs && nowMs < notAfter

/**
 * Those that may have signed a leaf, by their subject: only a few of each bundle, because verifying takes time, and so
 * few that all can be trusted: those of one bundle cannot displace those of another.
 */
const named = (bundles: readonly (readonly Certificate[])[], leaves: readonly Leaf[]): readonly Certificate[] =>
  bundles.flatMap((bundle) =>
    bundle
      .filter(({ subject }) => leaves.some(({ issuer }) => issuer === subject))
      .slice(0, Math.floor(maxTrusted / bundles.length)),
  )

/** Those that more than half of the bundles have: the authority of what is served is in all that nobody changed. */
function inMost(bundles: readonly (readonly Certificate[])[]): readonly Certificate[] {
  const pems = bundles.map((bundle) => new Set(bundle.map(({ pem }) => pem)))
  return bundles.flat().filter(({ pem }) => pems.filter((each) => each.has(pem)).length > pems.length / 2)
}

function sameCertificates(left: readonly Certificate[], right: readonly Certificate[]): boolean {
  const pems = (certificates: readonly Certificate[]) => new Set(certificates.map(({ pem }) => pem))
  return pems(left).symmetricDifference(pems(right)).size === 0
}
