import type { Volume } from '../api/volume.ts'
import type { Identity } from './identity.ts'

type CloudInit = NonNullable<Volume['cloudInit']>

/**
 * The files of a NoCloud seed. cloud-init accepts a seed only if both user-data and meta-data exist. By default,
 * meta-data uses the VM's UID as the instance ID, so that a new VM is a new instance.
 */
export function seedFiles(cloudInit: CloudInit, vm: Identity): { [file: string]: string } {
  const metaData = cloudInit.metaData ?? `instance-id: ${vm.uid}\nlocal-hostname: ${vm.name}\n`
  const files = { 'user-data': cloudInit.userData ?? '', 'meta-data': metaData }
  return cloudInit.networkData === undefined ? files : { ...files, 'network-config': cloudInit.networkData }
}

/**
 * The arguments with which genisoimage creates an ISO from `directory`, with the label that cloud-init looks for and
 * long lower-case file names.
 */
export function isoArguments(image: string, directory: string): string[] {
  return ['-quiet', '-output', image, '-volid', 'cidata', '-joliet', '-rational-rock', directory]
}
