import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { run } from '../../cluster/command.ts'

const read = (name: string) => readFileSync(new URL(`../../manifests/monitoring/${name}`, import.meta.url), 'utf8')

/** promtool is in Debian's package prometheus, which `make test` installs. */
test('the tests of the alerts pass in promtool', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'virtset-rules-'))
  try {
    const rules: { readonly spec: object } = parse(read('rules.yaml'))
    writeFileSync(join(directory, 'rules.json'), JSON.stringify(rules.spec))
    writeFileSync(join(directory, 'rules.test.yaml'), read('rules.test.yaml'))
    expect(await run(['promtool', 'test', 'rules', 'rules.test.yaml'], { directory })).toContain('SUCCESS')
  } finally {
    rmSync(directory, { recursive: true })
  }
})
