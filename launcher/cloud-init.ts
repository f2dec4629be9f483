import { join } from 'node:path'
import type { CloudInit } from '../api/mounted-source.ts'
import type { Identity } from './identity.ts'
import type { FilesOfIso } from './iso.ts'

/** The label that cloud-init looks for. */
export const seedLabel = 'cidata'

/**
 * The files of a NoCloud seed. cloud-init accepts a seed only if both user-data and meta-data exist. By default,
 * meta-data uses the VM's UID as the instance ID, so that a new VM is a new instance.
 *
 * @param sources where the kubelet mounted what is in Secrets
 */
export function seedFiles(cloudInit: CloudInit, vm: Identity, sources: string): FilesOfIso {
  const { userData = '', userDataSecretRef, metaData, networkData, networkDataSecretRef } = cloudInit
  const from = (file: string) => ({ path: join(sources, file) })
  return {
    'user-data': userDataSecretRef === undefined ? { text: userData } : from('user-data'),
    'meta-data': { text: metaData ?? `instance-id: ${vm.uid}\nlocal-hostname: ${vm.name}\n` },
    ...(networkData === undefined ? {} : { 'network-config': { text: networkData } }),
    ...(networkDataSecretRef === undefined ? {} : { 'network-config': from('network-config') }),
  }
}
