import type { Volume } from '../api/volume.ts'
import type { Identity } from './identity.ts'

type CloudInit = NonNullable<Volume['cloudInit']>

/**
 * The files of a NoCloud seed. cloud-init accepts a seed only if both user-data and meta-data exist; by default,
 * meta-data names the instance by the VM's uid, so that a new VM is a new instance.
 */
export function seedFiles(cloudInit: CloudInit, vm: Identity): { [file: string]: string } {
  const metaData = cloudInit.metaData ?? `instance-id: ${vm.uid}\nlocal-hostname: ${vm.name}\n`
  const files = { 'user-data': cloudInit.userData ?? '', 'meta-data': metaData }
  return cloudInit.networkData === undefined ? files : { ...files, 'network-config': cloudInit.networkData }
}

/**
 * Arguments of genisoimage: the ISO of `directory` with the label by which cloud-init finds it, in long lower-case
 * names.
 */
export function isoArguments(image: string, directory: string): string[] {
  return ['-quiet', '-output', image, '-volid', 'cidata', '-joliet', '-rational-rock', directory]
}
