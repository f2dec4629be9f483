import { open, readFile, writeFile } from 'node:fs/promises'
import { convertDisk } from '../../launcher/convert-disk.ts'
import { examineFile } from '../../launcher/disk-format.ts'

/** Converts a disk that was downloaded, as the launcher does; `CHANGED` replaces its beginning after it was examined. */
const [path = '', target = '', scratch = ''] = process.argv.slice(2)
await using temporary = await open(path, 'r+')
const disk = await examineFile(temporary)
if ('refused' in disk) throw new Error(disk.refused)
const { CHANGED: changed } = process.env
if (changed !== undefined) await temporary.write(await readFile(changed), 0, undefined, 0)
await writeFile(target, '')
await using output = await open(target, 'r+')
const source = { path, ...disk, isDevice: false, temporary }
await convertDisk(source, output, { offset: 0 }, { scratch, onPercent: () => {} })
