import { open, writeFile } from 'node:fs/promises'
import { convertDisk } from '../../launcher/convert-disk.ts'
import { examineFile } from '../../launcher/disk-format.ts'

/** Converts a disk that was downloaded, as the launcher does; `CHANGED` replaces its beginning after it was examined. */
const [path = '', target = '', scratch = ''] = process.argv.slice(2)
const temporary = await open(path, 'r+')
const disk = await examineFile(temporary)
if ('refused' in disk) throw new Error(disk.refused)
const { CHANGED: changed } = process.env
if (changed !== undefined) await temporary.write(await open(changed).then((file) => file.readFile()), 0, undefined, 0)
await writeFile(target, '')
const source = { path, ...disk, isDevice: false, temporary }
await convertDisk(source, await open(target, 'r+'), { offset: 0 }, { scratch, onPercent: () => {} })
