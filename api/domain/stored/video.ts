import { type JsonObject, type Normalization } from './member.ts'

/** What libvirt stores for graphics cards. */
export const video: Normalization = {
  'devices.videos.model': (model) => storedVideoModel(model),
}

/** libvirt rounds the sizes of video memory up to powers of two. */
const storedVideoModel = (model: JsonObject): JsonObject => ({
  ...model,
  ...Object.fromEntries(
    ['ram', 'vram', 'vram64', 'vgamem'].flatMap((key) => {
      const size = model[key]
      return typeof size === 'number' && size > 0 ? [[key, 2 ** Math.ceil(Math.log2(size))]] : []
    }),
  ),
})
