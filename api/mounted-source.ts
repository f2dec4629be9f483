import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { dnsSubdomainRule, isDnsSubdomain } from './label.ts'
import { open, string, type SchemasOf } from './schema.ts'

/** A key of a Secret in the namespace of the VM. */
export interface SecretKey {
  readonly name: string
  /** If absent: the name of the field that is replaced, `userData` or `networkData`. */
  readonly key?: string
}

export interface CloudInit {
  readonly userData?: string
  readonly userDataSecretRef?: SecretKey
  readonly metaData?: string
  readonly networkData?: string
  readonly networkDataSecretRef?: SecretKey
}

/** The kinds of volume that the kubelet mounts into the pod, wholly or in part. */
export interface MountedVolume {
  /** A NoCloud ISO, label `cidata`. */
  readonly cloudInit?: CloudInit
  /** A read-only ISO with a file for each key. */
  readonly configMap?: { readonly name: string; readonly label?: string }
  readonly secret?: { readonly secretName: string; readonly label?: string }
}

/** A ConfigMap or Secret as a source of a pod's projected volume. */
export type MountedSource =
  | { readonly secret: { readonly name: string; readonly items?: readonly MountedKey[] } }
  | { readonly configMap: { readonly name: string } }

interface MountedKey {
  readonly key: string
  readonly path: string
}

/**
 * Only Secrets with such a name are mounted for VMs. A policy can check a name, so a stolen token of the controller
 * reaches no other Secret.
 */
const secretPrefix = 'vm.'

/** ISO 9660's limit. */
const maxLabel = 32
const isoLabel = string('The label of the file system, which is an ISO. If absent: the name of the volume.', {
  minLength: 1,
  maxLength: maxLabel,
  pattern: '^[A-Za-z0-9_.-]+$',
})

const secretName = string(`The name of the Secret, which must begin with \`${secretPrefix}\`.`)

export const secretKey = (field: string) =>
  open(
    `The Secret with ${field}, mounted when the VM starts; neither the VM nor virtset's processes outside of its pod have its content.`,
    {
      name: secretName,
      key: string(`The key in the Secret. If absent: ${field}.`, { pattern: '^[A-Za-z0-9._-]+$', maxLength: 253 }),
    } satisfies SchemasOf<SecretKey>,
    ['name'],
  )

export const secretVolume = open(
  'The keys of a Secret as files of a read-only ISO.',
  { secretName, label: isoLabel } satisfies SchemasOf<Required<MountedVolume>['secret']>,
  ['secretName'],
)

export const configMapVolume = open(
  'The keys of a ConfigMap as files of a read-only ISO.',
  { name: string('The name of the ConfigMap.'), label: isoLabel } satisfies SchemasOf<
    Required<MountedVolume>['configMap']
  >,
  ['name'],
)

/** What the kubelet mounts into the pod for a volume, and the launcher makes the volume of. */
export function mountedSources({ cloudInit, secret, configMap }: MountedVolume): readonly MountedSource[] {
  if (secret !== undefined) return [{ secret: { name: secret.secretName } }]
  if (configMap !== undefined) return [{ configMap: { name: configMap.name } }]
  const { userDataSecretRef: user, networkDataSecretRef: network } = cloudInit ?? {}
  return [
    ...(user === undefined ? [] : [keyOf(user, 'userData', 'user-data')]),
    ...(network === undefined ? [] : [keyOf(network, 'networkData', 'network-config')]),
  ]
}

const keyOf = ({ name, key }: SecretKey, defaultKey: string, path: string): MountedSource => ({
  secret: { name, items: [{ key: key ?? defaultKey, path }] },
})

/** Checks the names in a volume, and that each file of cloud-init has one source. */
export function checkMountedSources({ cloudInit = {}, secret, configMap }: MountedVolume, field: string): Cause[] {
  const { userDataSecretRef: user, networkDataSecretRef: network } = cloudInit
  const at = `${field}.cloudInit`
  return [
    ...(secret === undefined ? [] : checkSecretName(secret.secretName, `${field}.secret.secretName`)),
    ...(configMap === undefined ? [] : checkConfigMapName(configMap.name, `${field}.configMap.name`)),
    ...(user === undefined ? [] : checkSecretKey(user, `${at}.userDataSecretRef`)),
    ...(network === undefined ? [] : checkSecretKey(network, `${at}.networkDataSecretRef`)),
    ...(user === undefined || cloudInit.userData === undefined ? [] : [twice(at, 'userData')]),
    ...(network === undefined || cloudInit.networkData === undefined ? [] : [twice(at, 'networkData')]),
  ]
}

const twice = (field: string, key: string): Cause => ({
  rule: 'volume-cloud-init',
  field: `${field}.${key}SecretRef`,
  reason: 'FieldValueForbidden',
  message: `conflicts with ${key}: set one of them`,
})

function checkSecretKey({ name, key }: SecretKey, field: string): Cause[] {
  const causes = checkSecretName(name, `${field}.name`)
  if (key !== '.' && key?.startsWith('..') !== true) return causes
  return [...causes, invalidValue('secret-key', `${field}.key`, key, 'must be neither `.` nor begin with `..`')]
}

function checkSecretName(name: string, field: string): Cause[] {
  if (!isDnsSubdomain(name)) return [invalidValue('secret-name', field, name, dnsSubdomainRule)]
  if (name.startsWith(secretPrefix)) return []
  const message = `must begin with "${secretPrefix}": only Secrets with such a name are mounted for VMs`
  return [invalidValue('secret-name', field, name, message)]
}

const checkConfigMapName = (name: string, field: string): Cause[] =>
  isDnsSubdomain(name) ? [] : [invalidValue('config-map-name', field, name, dnsSubdomainRule)]
