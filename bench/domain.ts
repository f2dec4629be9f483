import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canonical } from '../api/domain/canonical.ts'
import type { Domain } from '../api/domain/domain.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { readDomain, writeDomain } from '../api/domain/xml.ts'
import { seed } from './seed.ts'

/**
 * The time of conversions and validation of a domain, compared with `JSON.parse` and `JSON.stringify` of the same
 * object in the same run, and the cost of loading the description when a process starts.
 *
 *     npm run -s bench:domain [-- --json]
 */
const small: Domain = {
  ...seed,
  name: 'testvm',
  devices: {
    ...seed.devices,
    interfaces: [{ type: 'user', mac: { address: '52:54:00:12:34:56' }, model: { type: 'virtio' } }],
    serials: [{ type: 'pty', target: { port: 0 } }],
    consoles: [{ type: 'pty', target: { type: 'serial', port: 0 } }],
    graphics: [{ type: 'vnc', port: -1, autoport: true, listens: [{ type: 'address', address: '127.0.0.1' }] }],
  },
}

/** 20 devices on q35, each with the address that libvirt would assign. */
const twenty: Domain = {
  ...small,
  os: { type: { arch: 'x86_64', machine: 'pc-q35-10.0', os: 'hvm' }, boots: [{ dev: 'hd' }] },
  features: { acpi: {}, apic: {} },
  devices: {
    disks: Array.from({ length: 8 }, (_, index) => ({
      type: 'file' as const,
      device: 'disk' as const,
      driver: { name: 'qemu', type: 'qcow2' as const },
      source: { file: `/var/lib/disks/${index}.qcow2` },
      target: { dev: `vd${'abcdefgh'.charAt(index)}`, bus: 'virtio' as const },
      address: { type: 'pci' as const, domain: '0x0000', bus: `0x0${index + 1}`, slot: '0x00', function: '0x0' },
    })),
    controllers: Array.from({ length: 9 }, (_, index) => ({
      type: 'pci' as const,
      index,
      model: index === 0 ? ('pcie-root' as const) : ('pcie-root-port' as const),
      ...(index === 0 ? {} : { target: { chassis: index, port: `0x${(index + 15).toString(16)}` } }),
    })),
    interfaces: Array.from({ length: 3 }, (_, index) => ({
      type: 'user' as const,
      mac: { address: `52:54:00:12:34:0${index}` },
      model: { type: 'virtio' },
    })),
  },
}

/** Median time of a call in microseconds, of 21 rounds of at least 20 ms. */
const medianUs = (work: () => unknown): number => {
  let calls = 1
  const round = (): number => {
    const start = performance.now()
    for (let call = 0; call < calls; call += 1) work()
    return performance.now() - start
  }
  while (round() < 20) calls *= 2
  const rounds = Array.from({ length: 21 }, () => (round() * 1000) / calls).toSorted((left, right) => left - right)
  return rounds[10] ?? 0
}

/**
 * A new process imports the description and validates one domain; the median of five, in milliseconds. `cache`: a
 * folder for Node's compile cache, as in the images; without it Node strips the types of each file again.
 */
const startUp = (cache?: string): { importMs: number; firstValidationMs: number } => {
  const script = `
    const start = performance.now()
    const { validateDomain } = await import(${JSON.stringify(new URL('../api/domain/validate.ts', import.meta.url).href)})
    const imported = performance.now()
    const causes = validateDomain(${JSON.stringify(twenty)})
    if (causes.length > 0) throw new Error(JSON.stringify(causes))
    console.log(JSON.stringify([imported - start, performance.now() - imported]))`
  const runs = Array.from({ length: 5 }, (): number[] =>
    JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '-e', script], {
        encoding: 'utf8',
        env: cache === undefined ? {} : { NODE_COMPILE_CACHE: cache },
      }),
    ),
  )
  const median = (index: number): number =>
    runs.map((run) => run[index] ?? 0).toSorted((left, right) => left - right)[2] ?? 0
  return { importMs: median(0), firstValidationMs: median(1) }
}

const measure = (name: string, domain: Domain) => {
  const json = JSON.stringify(domain)
  const xml = writeDomain(domain)
  const causes = validateDomain(domain)
  if (causes.length > 0) throw new Error(JSON.stringify(causes))
  const us = {
    jsonParse: medianUs(() => JSON.parse(json)),
    jsonParseAndStringify: medianUs(() => JSON.stringify(JSON.parse(json))),
    validate: medianUs(() => validateDomain(domain)),
    canonical: medianUs(() => canonical(domain)),
    readXml: medianUs(() => readDomain(xml)),
    writeXml: medianUs(() => writeDomain(domain)),
  }
  return { name, jsonBytes: json.length, xmlBytes: xml.length, us, validateByJsonParse: us.validate / us.jsonParse }
}

const cache = mkdtempSync(join(tmpdir(), 'virtset-bench-'))
const start = { cold: startUp(), cached: startUp(cache) }
rmSync(cache, { recursive: true })
const result = { start, domains: [measure('seed example', small), measure('20 devices', twenty)] }

if (process.argv.includes('--json')) console.log(JSON.stringify(result))
else {
  for (const [kind, { importMs, firstValidationMs }] of Object.entries(start)) {
    console.log(
      `start, ${kind}: ${importMs.toFixed(0)} ms to import, ${firstValidationMs.toFixed(1)} ms for the first validation`,
    )
  }
  for (const { name, jsonBytes, xmlBytes, us, validateByJsonParse } of result.domains) {
    console.log(`${name}: ${jsonBytes} bytes of JSON, ${xmlBytes} of XML`)
    for (const [what, time] of Object.entries(us)) {
      console.log(`  ${what.padEnd(22)} ${time.toFixed(1).padStart(8)} µs ${(1e6 / time).toFixed(0).padStart(8)}/s`)
    }
    console.log(`  validation takes ${validateByJsonParse.toFixed(2)} × JSON.parse`)
  }
}
