/** Long tests run a part of their cases in `make test`, and all of them in `make soak`. */
export const sized = (part: number, all: number): number => (process.env['SOAK'] === undefined ? part : all)
