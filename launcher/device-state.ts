import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { nvramDirectory } from '../api/nvram-directory.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { Identity } from './identity.ts'
import { Refused } from './refused.ts'
import type { Settings } from './settings.ts'

/** Where the variables of UEFI firmware and the state of a TPM are stored. */
export interface StateFiles {
  readonly nvramDirectory: string
  /** If absent: libvirt's own directory. */
  readonly tpmDirectory?: string
}

/**
 * The files of a VM: in its volume for them, or in directories of the pod.
 * @throws Refused VolumeUnavailable if the volume is not a file system
 */
export async function stateFiles(
  { deviceStateVolume: volume }: Pick<VirtualMachineSpec, 'deviceStateVolume'>,
  vm: Identity,
  settings: Pick<Settings, 'nvram' | 'volumes'>,
): Promise<StateFiles> {
  if (volume === undefined) return { nvramDirectory: settings.nvram }
  const directory = join(settings.volumes.files, volume)
  const found = await stat(directory).catch(() => undefined)
  if (found?.isDirectory() !== true) {
    const message = `volume "${volume}": spec.deviceStateVolume requires a claim with volumeMode Filesystem`
    throw new Refused('VolumeUnavailable', message)
  }
  return { nvramDirectory: directory, tpmDirectory: join(directory, `${vm.name}_TPM`) }
}

/**
 * The domain with these files: libvirt's directory for the variables of firmware is not writable in the pod. Files
 * elsewhere, which a cluster preset grants, are not changed.
 */
export function placeDeviceState(domain: Domain, files: StateFiles): Domain {
  return placeTpm(placeVariables(domain, files), files)
}

function placeVariables(domain: Domain, files: StateFiles): Domain {
  const { os } = domain
  const path = os?.nvram?.value
  if (!path?.startsWith(`${nvramDirectory}/`)) return domain
  const value = join(files.nvramDirectory, path.slice(nvramDirectory.length))
  return { ...domain, os: { ...os, nvram: { ...os?.nvram, value } } }
}

function placeTpm(domain: Domain, { tpmDirectory: path }: StateFiles): Domain {
  const { devices } = domain
  if (path === undefined || devices?.tpms === undefined) return domain
  const tpms = devices.tpms.map((tpm) =>
    tpm.backend?.type === 'emulator' && tpm.backend.source === undefined
      ? { ...tpm, backend: { ...tpm.backend, source: { type: 'dir' as const, path } } }
      : tpm,
  )
  return { ...domain, devices: { ...devices, tpms } }
}
