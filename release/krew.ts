import { stringify } from 'yaml'
import { archived } from './executables.ts'

/** An archive with an executable, for one operating system and processor. */
export interface Archive {
  readonly os: string
  readonly arch: string
  readonly file: string
  readonly sha256: string
}

const plugins = {
  vm: {
    shortDescription: 'Complete, explain and test virtual machines',
    description:
      'Runs the admission engine of virtset on the command line: shows what presets and libvirt make of a virtual machine, ' +
      'who set each field, and what a change of presets would do to existing virtual machines.',
  },
  preset: {
    shortDescription: 'Complete, explain and test objects of any kind',
    description:
      'Runs the admission engine of virtset on the command line: shows what presets make of an object of any kind, who ' +
      'set each field, and what a change of presets would do to existing objects.',
  },
} as const

/** The names under which krew installs the executable; it links each to the same file. */
export type Plugin = keyof typeof plugins

/**
 * The manifest that krew uses to install `kubectl vm` or `kubectl preset`
 * (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
 */
export function krewManifest(plugin: Plugin, version: string, downloads: string, archives: readonly Archive[]): string {
  return stringify({
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: plugin },
    spec: {
      version,
      homepage: 'https://github.com/virtset/virtset',
      ...plugins[plugin],
      platforms: archives.map(({ os, arch, file, sha256 }) => ({
        selector: { matchLabels: { os, arch } },
        uri: `${downloads}/${file}`,
        sha256,
        bin: 'kubectl-vm',
        files: archived.map((from) => ({ from, to: '.' })),
      })),
    },
  })
}
