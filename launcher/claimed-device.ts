import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeviceRequest } from '../api/host-device.ts'
import type { ResourceClaim } from '../api/resource-claim.ts'
import { isRecord } from '../api/schema.ts'
import { Refused } from './refused.ts'

/** The attributes of a device, as in its ResourceSlice. */
export type DeviceAttributes = { readonly [name: string]: unknown }

/** The devices that DRA drivers have allocated for a request; undefined if they have not described any. */
export type ReadClaimedDevices = (request: DeviceRequest) => Promise<readonly DeviceAttributes[] | undefined>

/** The versions that have the fields which are read here. */
const versions = ['metadata.resource.k8s.io/v1alpha1']
/** Each driver has a file `DRIVER-metadata.json`. */
const suffix = '-metadata.json'

/**
 * Reads the files by which DRA drivers describe the devices of a request in the containers that get them
 * (https://kep.k8s.io/5304). The devices of several drivers are in the order of the names of the drivers.
 * @param directory usually /var/run/kubernetes.io/dra-device-attributes
 */
export async function readClaimedDevices(
  directory: string,
  claims: readonly ResourceClaim[],
  { name, request }: DeviceRequest,
): Promise<readonly DeviceAttributes[] | undefined> {
  const claim = claims.find((one) => one.name === name)
  const place =
    claim?.resourceClaimName === undefined
      ? join('resourceclaimtemplates', name)
      : join('resourceclaims', claim.resourceClaimName)
  const folder = join(directory, place, request)
  const files = (await namesIn(folder)).filter((file) => file.endsWith(suffix)).toSorted()
  if (files.length === 0) return undefined
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  return texts.flatMap((text, index) => devicesIn(text, request, files[index] ?? ''))
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
}

/** A file has the same devices in each version that the driver knows, as objects after each other. */
function devicesIn(text: string, request: string, file: string): readonly DeviceAttributes[] {
  const documents = text.split(/^(?=\{)/m).map((one) => parse(one, file))
  const known = documents.find(({ apiVersion }) => typeof apiVersion === 'string' && versions.includes(apiVersion))
  if (known === undefined) {
    const found = documents.map(({ apiVersion }) => String(apiVersion)).join(', ')
    throw new Refused('StartFailed', `${file} describes devices in ${found}; the launcher reads ${versions.join(', ')}`)
  }
  return records(known['requests'])
    .filter(({ name }) => name === request || String(name).startsWith(`${request}/`))
    .flatMap(({ devices }) => records(devices))
    .map(({ attributes }) => (isRecord(attributes) ? attributes : {}))
}

function parse(text: string, file: string): { readonly [key: string]: unknown } {
  try {
    const value: unknown = JSON.parse(text)
    if (isRecord(value)) return value
  } catch (error) {
    throw new Refused('StartFailed', `${file} is not JSON`, { cause: error })
  }
  throw new Refused('StartFailed', `${file} is not a JSON object`)
}

const records = (value: unknown): readonly { readonly [key: string]: unknown }[] =>
  Array.isArray(value) ? value.filter((one) => isRecord(one)) : []
