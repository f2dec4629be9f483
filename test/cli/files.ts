import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Creates a folder with these files until the test ends; returns a function for paths in it. */
export function files(texts: { readonly [name: string]: string }): (name?: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'virtset-cli-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return (name = '') => join(folder, name)
}

export const vm = (name: string, more = '', labels = '{}'): string => `apiVersion: virtset.io/v1alpha1
kind: VirtualMachine
metadata: {name: ${name}, labels: ${labels}}
spec:
  domain:
    type: qemu
    memory: {unit: MiB, value: 64}
    os: {type: {os: hvm}}
${more.includes('devices:') ? '' : '    devices: {interfaces: [{type: user}]}\n'}${more}`

export const preset = (
  name: string,
  spec: string,
  kind = 'VirtualMachinePreset',
): string => `apiVersion: virtset.io/v1alpha1
kind: ${kind}
metadata: {name: ${name}}
spec: ${spec}
`
